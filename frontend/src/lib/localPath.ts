/**
 * Where to go after a login: a path of ours, never another site. The same rule as the server's web/redirects.py, which
 * a test compares.
 */

const LONGEST = 2000;

export function localPath(wanted: string | null): string {
  const text = wanted ?? "";
  if (text.length > LONGEST || !/^[\x21-\x7e]*$/.test(text)) return "/";
  let seen = text;
  for (let turn = 0; turn < 4; turn++) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
    if (/[\x00-\x1f\x7f-\x9f\\]/.test(seen) || !seen.startsWith("/") || seen.startsWith("//")) return "/";
    const decoded = unquote(seen.split("?")[0]?.split("#")[0] ?? "");
    if (decoded === seen) return text;
    seen = decoded;
  }
  return "/";
}

/** Like Python's: what is no escape stays as it is. */
function unquote(text: string): string {
  return text.replace(/(?:%[0-9a-fA-F]{2})+/g, (escapes) => {
    const bytes = Uint8Array.from(escapes.slice(1).split("%"), (hex) => Number.parseInt(hex, 16));
    return new TextDecoder().decode(bytes);
  });
}
