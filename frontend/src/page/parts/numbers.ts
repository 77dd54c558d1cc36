// Formatting of numbers.
import { decimal, probability } from '../../figures/formatting';

export { decimal, probability };

/** With a minus sign (−), so that columns line up. */
export function signed(x: number, digits = 3): string {
  if (x === -Infinity) return '−∞';
  const written = x.toFixed(digits);
  return Number(written) === 0 ? written.replace('-', '') : written.replace('-', '−'); // no sign for zero
}

/** A change, with + for an increase. */
export function change(x: number, digits = 3): string {
  const written = signed(x, digits);
  return x > 0 && Number(written) !== 0 ? `+${written}` : written;
}

/** One digit and a power of ten. */
export function tiny(x: number): string {
  return x === 0 ? '0' : x.toExponential(0).replace('-', '−').replace('e', ' × 10^');
}

const POWERS: Record<string, string> = {
  '−': '⁻',
  '+': '',
  '0': '⁰',
  '1': '¹',
  '2': '²',
  '3': '³',
  '4': '⁴',
  '5': '⁵',
  '6': '⁶',
  '7': '⁷',
  '8': '⁸',
  '9': '⁹',
};

/** 3 × 10⁻⁷ */
export function power(x: number): string {
  if (!Number.isFinite(x)) return '∞';
  const [digits, exponent] = tiny(x).split('^');
  return exponent === undefined ? (digits as string) : digits + [...exponent].map((one) => POWERS[one] ?? one).join('');
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 || share > 0.995 ? 1 : 0)} %`;
}
