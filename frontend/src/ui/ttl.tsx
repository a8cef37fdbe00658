/** How long until something happens by itself: the usual choices, or never. */

import { duration } from "../lib/format.ts";
import { t } from "../lib/language.ts";
import { Field } from "./parts.tsx";

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86400;
export const STANDBY_CHOICES = [10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 8 * HOUR, DAY];
export const ARCHIVE_CHOICES = [30 * MINUTE, HOUR, 8 * HOUR, DAY, 7 * DAY, 30 * DAY];

interface Props {
  label: string;
  hint: string;
  choices: number[];
  /** null: as this installation does it. */
  value: number | null;
  onChange: (value: number | null) => void;
  /** Whether "as this installation does it" can be chosen. */
  usual?: boolean;
}

export function TtlField({ label, hint, choices, value, onChange, usual = false }: Props) {
  const offered = value && !choices.includes(value) ? [...choices, value].sort((a, b) => a - b) : choices;
  return (
    <Field label={label} hint={hint}>
      {(ids) => (
        <select
          {...ids}
          value={value ?? "usual"}
          onChange={(event) => onChange(event.target.value === "usual" ? null : Number(event.target.value))}
        >
          {usual && <option value="usual">{t("ttl.usual")}</option>}
          {offered.map((seconds) => (
            <option key={seconds} value={seconds}>
              {t("ttl.after", { time: duration(seconds) })}
            </option>
          ))}
          <option value={0}>{t("ttl.never")}</option>
        </select>
      )}
    </Field>
  );
}
