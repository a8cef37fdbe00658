/** Somebody else changed the same thing: theirs beside one's own, and the choice. */

import { t } from "../../lib/language.ts";
import { Button, Note } from "../../ui/parts.tsx";

interface Props {
  value: string;
  onTake: () => void;
  onOverwrite: () => void;
}

export function Theirs({ value, onTake, onOverwrite }: Props) {
  return (
    <Note kind="warn">
      <p>{t("theirs.text")}</p>
      <pre className="theirs">{value || t("theirs.empty")}</pre>
      <div className="verb-row">
        <Button onClick={onTake}>{t("theirs.take")}</Button>
        <Button onClick={onOverwrite}>{t("theirs.overwrite")}</Button>
      </div>
    </Note>
  );
}
