/**
 * The runbook's entry of one code: what stands below its heading, up to the next one. Its lines are as long as the page
 * is wide, and what it refers to beside itself is a file of the documentation.
 */

export function entryOf(runbook: string, code: string): string | null {
  const lines = runbook.split("\n");
  const start = lines.indexOf(`### ${code}`);
  if (start < 0) return null;
  const length = lines.slice(start + 1).findIndex((line) => line.startsWith("#"));
  const end = length < 0 ? lines.length : start + 1 + length;
  return lines
    .slice(start + 1, end)
    .join("\n")
    .trim()
    .replace(/(?<!\n)\n(?!\n)/g, " ")
    .replace(/\[([^\]]+)\]\((?!https?:)([^)#]+)[^)]*\)/g, "`docs/$2`");
}
