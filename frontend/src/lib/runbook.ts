/** The runbook's entry of one code: what stands below its heading, up to the next one. */

export function entryOf(runbook: string, code: string): string | null {
  const lines = runbook.split("\n");
  const start = lines.indexOf(`### ${code}`);
  if (start < 0) return null;
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith("#"));
  const end = length < 0 ? lines.length : start + 1 + length;
  return lines
    .slice(start + 1, end)
    .join("\n")
    .trim();
}
