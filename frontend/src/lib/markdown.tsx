/**
 * A little Markdown as React elements: headings, lists, tasks, quotes, code, emphasis, links.
 *
 * Safe because no HTML is ever made of text: what is not understood stays text. Links lead to http, https and mailto.
 */

import type { ReactNode } from "react";
import { INLINE } from "./inline.ts";

const DEEPEST = 8; // quotes in quotes

export function inline(text: string): ReactNode[] {
  const found: ReactNode[] = [];
  let rest = text;
  for (let key = 0; rest; key++) {
    const match = INLINE.exec(rest);
    if (!match) {
      found.push(rest);
      break;
    }
    if (match.index) found.push(rest.slice(0, match.index));
    found.push(element(match, key));
    rest = rest.slice(match.index + match[0].length);
  }
  return found;
}

function element(match: RegExpExecArray, key: number): ReactNode {
  const [whole, , code, bold, bold2, italic, italic2, struck, label, target, bare] = match;
  if (code !== undefined) return <code key={key}>{code.trim()}</code>;
  if (bold ?? bold2) return <strong key={key}>{inline((bold ?? bold2) as string)}</strong>;
  if (italic ?? italic2) return <em key={key}>{inline((italic ?? italic2) as string)}</em>;
  if (struck) return <del key={key}>{inline(struck)}</del>;
  if (label && target) return isSafe(target) ? link(target, inline(label), key) : whole;
  return bare ? link(bare, bare, key) : whole;
}

export function isSafe(target: string): boolean {
  return /^(https?:\/\/|mailto:)/i.test(target);
}

function link(target: string, content: ReactNode, key: number): ReactNode {
  return (
    <a key={key} href={target} target="_blank" rel="noopener noreferrer nofollow">
      {content}
    </a>
  );
}

interface Block {
  kind: "heading" | "code" | "quote" | "list" | "rule" | "paragraph";
  level: number;
  lines: string[];
}

const LIST = /^\s*(?:[-*+]|\d{1,9}[.)])\s+/;

export function blocksOf(text: string): Block[] {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  const take = (kind: Block["kind"], level: number, is: (line: string) => boolean): void => {
    const start = at;
    do at += 1;
    while (at < lines.length && is(lines[at] as string));
    blocks.push({ kind, level, lines: lines.slice(start, at) });
  };
  while (at < lines.length) {
    const line = lines[at] as string;
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (/^\s*```/.test(line)) {
      const end = lines.findIndex((each, index) => index > at && /^\s*```\s*$/.test(each));
      const until = end < 0 ? lines.length : end;
      blocks.push({ kind: "code", level: 0, lines: lines.slice(at + 1, until) });
      at = until + 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: (heading[1] as string).length, lines: [heading[2] as string] });
      at += 1;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      blocks.push({ kind: "rule", level: 0, lines: [] });
      at += 1;
    } else if (/^\s*>/.test(line)) take("quote", 0, (each) => /^\s*>/.test(each));
    else if (LIST.test(line))
      take("list", /^\s*\d/.test(line) ? 1 : 0, (each) => LIST.test(each) || /^\s{2,}\S/.test(each));
    else if (!line.trim()) at += 1;
    else take("paragraph", 0, (each) => !!each.trim() && !/^(\s*```|#{1,6}\s|\s*>)/.test(each) && !LIST.test(each));
  }
  return blocks;
}

export function Markdown({ text, depth = 0 }: { text: string; depth?: number }) {
  return <div className="markdown">{blocksOf(text).map((block, key) => shown(block, key, depth))}</div>;
}

function shown(block: Block, key: number, depth: number): ReactNode {
  switch (block.kind) {
    case "heading": {
      const Heading = `h${Math.min(6, block.level + 2)}` as "h3";
      return <Heading key={key}>{inline(block.lines[0] ?? "")}</Heading>;
    }
    case "code":
      return (
        <pre key={key}>
          <code>{block.lines.join("\n")}</code>
        </pre>
      );
    case "rule":
      return <hr key={key} />;
    case "quote": {
      const quoted = block.lines.map((line) => line.replace(/^\s*>\s?/, "")).join("\n");
      return (
        <blockquote key={key}>{depth < DEEPEST ? <Markdown text={quoted} depth={depth + 1} /> : quoted}</blockquote>
      );
    }
    case "list": {
      const List = block.level ? "ol" : "ul";
      return <List key={key}>{itemsOf(block.lines).map(item)}</List>;
    }
    case "paragraph":
      return <p key={key}>{inline(block.lines.join("\n"))}</p>;
  }
}

function itemsOf(lines: string[]): string[] {
  const items: string[] = [];
  for (const line of lines) {
    if (LIST.test(line)) items.push(line.replace(LIST, ""));
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  return items;
}

function item(text: string, key: number): ReactNode {
  const task = /^\[([ xX])\]\s+(.*)$/s.exec(text);
  if (!task) return <li key={key}>{inline(text)}</li>;
  return (
    <li key={key} className="task">
      <span aria-hidden="true">{task[1] === " " ? "☐" : "☑"}</span> {inline(task[2] ?? "")}
    </li>
  );
}
