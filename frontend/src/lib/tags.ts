/** Tags as they are typed: what is between commas, each once. */

export function tagsOf(text: string): string[] {
  const tags = text.split(",").map((each) => each.trim());
  return [...new Set(tags.filter(Boolean))];
}
