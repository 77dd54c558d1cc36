// Text in a picture: cut to fit, wrapped, with indices; tokens of scripts that run to the left stay by themselves.
import { escape, number, tag } from './svg';
import { measure } from './widths';

export const SIZE = 8;
export const FONT =
  "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'Liberation Sans', 'DejaVu Sans', sans-serif";
/** Of the line above to the line below. */
export const LINE = 10.5;

export interface TextStyle {
  fill: string;
  size?: number;
  bold?: boolean;
  anchor?: 'start' | 'middle' | 'end';
  /** Degrees around the text's own point. */
  rotate?: number;
  /** The colour around letters that stand on lines. */
  halo?: string;
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

export function runsLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

/** A token inside a sentence: of a script that runs to the left, kept from turning what stands beside it. */
export function isolated(token: string): string {
  return runsLeft(token) ? `\u2068${token}\u2069` : token;
}

/** A piece as one reads it: ▁ stands for the space before a word, and goes. */
export function shown(piece: string): string {
  const bare = piece.replace(/^▁+/, '').replace(/▁/g, ' ');
  return bare === '' ? '␣' : bare;
}

/** The text, or as much of it as fits, with … for the rest. Marks stay with their letters. */
export function cut(text: string, width: number, size = SIZE, bold = false): string {
  if (measure(text, size, bold) <= width) return text;
  const letters = text.match(/\P{M}\p{M}*|\p{M}+/gu) ?? [];
  let kept = '';
  for (const letter of letters) {
    if (measure(`${kept}${letter}…`, size, bold) > width) break;
    kept += letter;
  }
  return `${kept}…`;
}

/** Lines no wider than `width`; a word that is wider stands alone and is cut. */
export function wrap(text: string, width: number, size = SIZE): string[] {
  const lines: string[] = [];
  let current = '';
  for (const word of text.split(' ')) {
    const longer = current === '' ? word : `${current} ${word}`;
    if (current !== '' && measure(longer, size) > width) {
      lines.push(cut(current, width, size));
      current = word;
    } else {
      current = longer;
    }
  }
  return current === '' ? lines : [...lines, cut(current, width, size)];
}

function element(x: number, y: number, style: TextStyle, content: string): string {
  return tag(
    'text',
    {
      x,
      y,
      fill: style.fill,
      'font-size': style.size === undefined || style.size === SIZE ? undefined : style.size,
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

/** A sentence in which W_Q and the like have their index below. */
export function prose(x: number, y: number, content: string, style: TextStyle): string {
  const size = style.size ?? SIZE;
  const small = { dy: SHIFT.sub * size, 'font-size': size * SMALL };
  const back = -SHIFT.sub * size;
  let lowered = false;
  const parts = content.split(/(\b[Wb]_[QKVO]\b)/u).map((part) => {
    const [letter, index] = /^[Wb]_[QKVO]$/u.test(part) ? part.split('_') : [part];
    const plain =
      letter === '' ? '' : lowered ? tag('tspan', { dy: back }, escape(letter as string)) : escape(letter as string);
    lowered = index !== undefined || (lowered && letter === '');
    return plain + (index === undefined ? '' : tag('tspan', small, index));
  });
  return element(x, y, style, parts.join(''));
}

type Level = 'plain' | 'sub' | 'super';
interface Run {
  level: Level;
  text: string;
}

/** "W_K^{12} X" as runs: one character or braces after _ and ^. */
function runs(formula: string): Run[] {
  const found: Run[] = [];
  const pattern = /([_^])(?:\{([^}]*)\}|(.))|([^_^]+)/gu;
  for (const match of formula.matchAll(pattern)) {
    if (match[4] !== undefined) found.push({ level: 'plain', text: match[4] });
    else found.push({ level: match[1] === '_' ? 'sub' : 'super', text: match[2] ?? match[3] ?? '' });
  }
  return found;
}

const SMALL = 0.72;
const SHIFT: Record<Level, number> = { plain: 0, sub: 0.22, super: -0.38 };

/** A formula with indices: `formula(x, y, "W_K^1", ...)`. */
export function formula(x: number, y: number, content: string, style: TextStyle): string {
  const size = style.size ?? SIZE;
  let at = 0;
  const parts = runs(content).map((run) => {
    const shift = SHIFT[run.level] * size;
    const dy = shift - at;
    at = shift;
    return tag(
      'tspan',
      { dy: dy === 0 ? undefined : dy, 'font-size': run.level === 'plain' ? undefined : size * SMALL },
      escape(run.text),
    );
  });
  return element(x, y, style, parts.join(''));
}

export function formulaWidth(content: string, size = SIZE, bold = false): number {
  return runs(content).reduce(
    (sum, run) => sum + measure(run.text, run.level === 'plain' ? size : size * SMALL, bold),
    0,
  );
}
