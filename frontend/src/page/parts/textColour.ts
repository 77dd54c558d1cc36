// Text colour for a coloured cell.
import { rgb } from '../../figures/scales';

/** Black or white, whichever has more contrast with a background: at least 4.5 : 1. */
export function textColourOn(ground: string): string {
  const [r, g, b] = rgb(ground).map((part) =>
    part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
  );
  const light = 0.2126 * (r as number) + 0.7152 * (g as number) + 0.0722 * (b as number);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? '#000000' : '#ffffff';
}
