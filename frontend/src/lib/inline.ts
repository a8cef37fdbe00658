/**
 * What stands out inside a line of Markdown; which group matched says what it is (markdown.tsx).
 *
 * A run of backticks is taken as a whole or not at all: tried at every length from every place, a long one would take
 * minutes, and whoever looks at somebody's memo would wait for it.
 */
export const INLINE =
  /(`+)(?!`)([\s\S]*?[^`])\1(?!`)|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|\b_([^_\s][^_]*)_\b|~~([^~]+)~~|\[([^\]]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?'"])|`+/;
