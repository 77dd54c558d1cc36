// SVG elements as strings: attributes sorted, numbers with two decimals, so that the same figure has the same bytes.

export type Attributes = Record<string, string | number | undefined>;

/** A coordinate: at most two decimals, never -0. */
export function number(x: number): string {
  const rounded = Math.round(x * 100) / 100;
  return String(rounded === 0 ? 0 : rounded);
}

/** Escapes text for XML; characters that XML 1.0 forbids, such as lone surrogates, become U+FFFD. */
export function escape(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
    .replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (match) => (match.length === 2 ? match : '\ufffd'))
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;');
}

export function tag(name: string, attributes: Attributes, ...children: string[]): string {
  const written = Object.keys(attributes)
    .sort()
    .filter((key) => attributes[key] !== undefined)
    .map((key) => {
      const value = attributes[key] as string | number;
      return ` ${key}="${typeof value === 'number' ? number(value) : escape(value)}"`;
    })
    .join('');
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join('')}</${name}>`;
}

export function line(x1: number, y1: number, x2: number, y2: number, stroke: string, width = 0.75): string {
  return tag('line', { x1, y1, x2, y2, stroke, 'stroke-width': width });
}

export function translated(x: number, y: number, ...children: string[]): string {
  return tag('g', { transform: `translate(${number(x)} ${number(y)})` }, ...children);
}
