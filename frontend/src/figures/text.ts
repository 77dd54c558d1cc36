// SVG text: truncation, wrapping, subscripts and superscripts, isolation of right-to-left tokens.
import { escape, number, tag } from './svg';
import { textWidth } from './textWidth';

export const FONT_SIZE = 8;
export const FONT_FAMILY =
  "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', 'DejaVu Sans', sans-serif";
/** Distance between baselines, in points. */
export const LINE_HEIGHT = 10.5;

export interface TextStyle {
  fill: string;
  size?: number;
  bold?: boolean;
  anchor?: 'start' | 'middle' | 'end';
  /** Degrees, around the text's own position. */
  rotate?: number;
  /** Outline colour, for text over lines. */
  halo?: string;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

export function isRightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

/** A token within a sentence: right-to-left tokens are isolated, so that they do not reorder their neighbours. */
export function isolated(token: string): string {
  return isRightToLeft(token) ? `\u2068${token}\u2069` : token;
}

/** A token for display: without the ▁ that marks the space before a word. */
export function tokenText(piece: string): string {
  const bare = piece.replace(/^▁+/, '').replace(/▁/g, ' ');
  return bare === '' ? '␣' : bare;
}

/** The text, or as much of it as fits, followed by …. Combining marks stay with their letters. */
export function truncate(text: string, width: number, size = FONT_SIZE, bold = false): string {
  if (textWidth(text, size, bold) <= width) return text;
  const letters = text.match(/\P{M}\p{M}*|\p{M}+/gu) ?? [];
  let prefix = '';
  for (const letter of letters) {
    if (textWidth(`${prefix}${letter}…`, size, bold) > width) break;
    prefix += letter;
  }
  return `${prefix}…`;
}

/** Lines no wider than `width`; a wider word gets its own line and is truncated. */
export function wrap(text: string, width: number, size = FONT_SIZE): string[] {
  const lines: string[] = [];
  let current = '';
  for (const word of text.split(' ')) {
    const longer = current === '' ? word : `${current} ${word}`;
    if (current !== '' && textWidth(longer, size) > width) {
      lines.push(truncate(current, width, size));
      current = word;
    } else {
      current = longer;
    }
  }
  return current === '' ? lines : [...lines, truncate(current, width, size)];
}

function element(x: number, y: number, style: TextStyle, content: string): string {
  return tag(
    'text',
    {
      x,
      y,
      fill: style.fill,
      'font-size': style.size === undefined || style.size === FONT_SIZE ? undefined : style.size,
      'font-weight': style.bold ? 'bold' : undefined,
      'paint-order': style.halo === undefined ? undefined : 'stroke',
      stroke: style.halo,
      'stroke-width': style.halo === undefined ? undefined : 2.5,
      'text-anchor': style.anchor === undefined || style.anchor === 'start' ? undefined : style.anchor,
      transform: style.rotate ? `rotate(${number(style.rotate)} ${number(x)} ${number(y)})` : undefined,
    },
    content,
  );
}

export function text(x: number, y: number, content: string, style: TextStyle): string {
  return element(x, y, style, escape(content));
}

/** A sentence in which names such as W_Q get a subscript. */
export function prose(x: number, y: number, content: string, style: TextStyle): string {
  const size = style.size ?? FONT_SIZE;
  const subscript = { dy: BASELINE_SHIFT.sub * size, 'font-size': size * INDEX_SCALE };
  const back = -BASELINE_SHIFT.sub * size;
  let lowered = false;
  const parts = content.split(/(\b[Wb]_[QKVO]\b)/u).map((part) => {
    const [letter, index] = /^[Wb]_[QKVO]$/u.test(part) ? part.split('_') : [part];
    const plain =
      letter === '' ? '' : lowered ? tag('tspan', { dy: back }, escape(letter as string)) : escape(letter as string);
    lowered = index !== undefined || (lowered && letter === '');
    return plain + (index === undefined ? '' : tag('tspan', subscript, index));
  });
  return element(x, y, style, parts.join(''));
}

type Level = 'plain' | 'sub' | 'super';
interface Run {
  level: Level;
  text: string;
}

/** Splits "W_K^{12} X" into runs: _ and ^ apply to the next character, or to what is in braces. */
function runs(formula: string): Run[] {
  const list: Run[] = [];
  const pattern = /([_^])(?:\{([^}]*)\}|(.))|([^_^]+)/gu;
  for (const match of formula.matchAll(pattern)) {
    if (match[4] !== undefined) list.push({ level: 'plain', text: match[4] });
    else list.push({ level: match[1] === '_' ? 'sub' : 'super', text: match[2] ?? match[3] ?? '' });
  }
  return list;
}

const INDEX_SCALE = 0.72;
const BASELINE_SHIFT: Record<Level, number> = { plain: 0, sub: 0.22, super: -0.38 };

/** A formula with subscripts and superscripts: `formula(x, y, "W_K^1", ...)`. */
export function formula(x: number, y: number, content: string, style: TextStyle): string {
  const size = style.size ?? FONT_SIZE;
  let current = 0;
  const parts = runs(content).map((run) => {
    const shift = BASELINE_SHIFT[run.level] * size;
    const dy = shift - current;
    current = shift;
    return tag(
      'tspan',
      { dy: dy === 0 ? undefined : dy, 'font-size': run.level === 'plain' ? undefined : size * INDEX_SCALE },
      escape(run.text),
    );
  });
  return element(x, y, style, parts.join(''));
}

export function formulaWidth(content: string, size = FONT_SIZE, bold = false): number {
  return runs(content).reduce(
    (sum, run) => sum + textWidth(run.text, run.level === 'plain' ? size : size * INDEX_SCALE, bold),
    0,
  );
}
