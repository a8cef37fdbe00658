/** What a new workspace is made of: one of the images, or a reference that a pattern allows, and where it runs. */

import type { Images, NewWorkspace, Workspace } from "../../api/types.ts";
import { type Backend, backendsFor, type Choice, choicesOf, patternsOf } from "../../lib/images.ts";
import { t } from "../../lib/language.ts";
import { Field, Note } from "../../ui/parts.tsx";

/** What was chosen and typed; a typed reference goes first. Nothing of either: what the server takes then. */
export interface Picked {
  choice: Choice | null;
  typed: string;
  backend: Backend | null;
}

/** That of the workspace which is copied, as far as it may be had today. */
export function pickedOf(source: Workspace | null, images: Images | null): Picked {
  const nothing = { choice: null, typed: "", backend: null };
  if (!source || !images) return nothing;
  const { image_ref: image, backend } = source;
  if (choicesOf(images).some((each) => each.image === image && each.backend === backend)) {
    return { ...nothing, choice: { image, backend } };
  }
  return backendsFor(images, image).includes(backend) ? { choice: null, typed: image, backend } : nothing;
}

/** What is sent; the server says what is wrong with a reference that nothing allows. */
export function imageOf(picked: Picked, images: Images | null): Pick<NewWorkspace, "image_ref" | "backend"> {
  const typed = picked.typed.trim();
  if (!typed) return picked.choice ? { image_ref: picked.choice.image, backend: picked.choice.backend } : {};
  const [usual] = images ? backendsFor(images, typed) : [];
  const backend = chosenBackend(picked, images) ?? usual;
  return { image_ref: typed, ...(backend ? { backend } : {}) };
}

/** The backend that was chosen, where it still fits what is typed. */
function chosenBackend({ typed, backend }: Picked, images: Images | null): Backend | null {
  return images && backend && backendsFor(images, typed.trim()).includes(backend) ? backend : null;
}

interface Props {
  images: Images | null;
  picked: Picked;
  onPick: (change: Partial<Picked>) => void;
  source: Workspace | null;
}

export function ImageFields({ images, picked, onPick, source }: Props) {
  const choices = images ? choicesOf(images) : [];
  const patterns = images ? patternsOf(images) : [];
  const several = new Set(choices.map((each) => each.backend)).size > 1;
  const [usual] = choices;
  const current = picked.choice ?? usual;
  const lost = source && images && !backendsFor(images, source.image_ref).includes(source.backend);
  return (
    <>
      {lost && <Note kind="warn">{t("create.image_gone", { image: source.image_ref })}</Note>}
      <Field
        label={t("create.image")}
        hint={choices.length || !images ? t("create.image_hint") : null}
        error={images && !choices.length && !patterns.length ? t("create.no_images") : null}
      >
        {(ids) => (
          <select
            {...ids}
            value={current ? JSON.stringify([current.image, current.backend]) : ""}
            onChange={(event) => {
              const [image, backend] = JSON.parse(event.target.value) as [string, Backend];
              onPick({ choice: { image, backend } });
            }}
          >
            {choices.map(({ image, backend }) => (
              <option key={`${image} ${backend}`} value={JSON.stringify([image, backend])}>
                {several ? t("create.image_on", { image, backend }) : image}
              </option>
            ))}
          </select>
        )}
      </Field>
      {images && patterns.length > 0 && (
        <Typed images={images} patterns={patterns} picked={picked} onPick={onPick} required={!choices.length} />
      )}
    </>
  );
}

interface TypedProps extends Pick<Props, "picked" | "onPick"> {
  images: Images;
  patterns: string[];
  required: boolean;
}

function Typed({ images, patterns, picked, onPick, required }: TypedProps) {
  const backends = backendsFor(images, picked.typed.trim());
  const allowed = t("create.other_image_hint", { patterns: patterns.join(", ") });
  return (
    <>
      <Field
        label={t("create.other_image")}
        hint={allowed}
        error={picked.typed.trim() && !backends.length ? t("create.not_allowed", { allowed }) : null}
      >
        {(ids) => (
          <input
            {...ids}
            value={picked.typed}
            onChange={(event) => onPick({ typed: event.target.value })}
            maxLength={512}
            required={required}
          />
        )}
      </Field>
      {backends.length > 1 && (
        <Field label={t("create.backend")}>
          {(ids) => (
            <select
              {...ids}
              value={chosenBackend(picked, images) ?? backends[0]}
              onChange={(event) => onPick({ backend: event.target.value as Backend })}
            >
              {backends.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          )}
        </Field>
      )}
    </>
  );
}
