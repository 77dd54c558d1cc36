// From the encoder's output to K and V: every decoder layer makes its own, with its own W_K and W_V.
import { RowLabels, rowPitch } from '../labels';
import { ABOVE, BELOW, drawMatrix } from '../matrix';
import type { Drawing, Sheet } from '../sheet';
import { line } from '../svg';
import { cut, text } from '../text';
import type { Role } from '../theme';
import type { BridgeData, Lane, MaybeMatrix } from '../types';
import { decimal, plural } from '../words';
import { drawnHeads } from './multiHead';
import { sign } from './qkv';

const MOST_LAYERS = 6;

export function bridge(data: BridgeData, sheet: Sheet): Drawing {
  sheet.note('Layers are counted from 0.');
  const labels = new RowLabels(sheet, data.tokens, sheet.narrow ? 26 : 46);
  const shown = drawnHeads(data.lanes.length, MOST_LAYERS);
  const widths = columnWidths(sheet, labels.width);
  const tall = shown.length <= 3 ? 54 : 40;
  const pitch = tall + ABOVE + BELOW + 15;
  const lanes = shown.reduce<number>((sum, layer) => sum + (layer === null ? 16 : pitch), 0);
  const memoryPitch = rowPitch(data.tokens.length, 190);
  const memoryTall = memoryPitch * data.tokens.length;
  const height = Math.max(lanes, memoryTall + ABOVE + BELOW);
  const middle = (height - BELOW + ABOVE) / 2;

  const top = middle - memoryTall / 2;
  let body = labels.draw(labels.width, top, memoryPitch);
  const box = { x: labels.width, y: top, width: widths.memory, height: memoryTall };
  body += drawMatrix(sheet, data.memory, box, { role: 'memory', kind: 'activation', label: 'memory' });
  let y = (height - lanes) / 2;
  for (const layer of shown) {
    if (layer === null) {
      const rest = `⋮ ${plural(data.lanes.length - shown.length + 1, 'more layer')}, each with its own`;
      body += text(labels.width + widths.memory + 30, y + 10, rest, { fill: sheet.theme.quiet });
      y += 16;
      continue;
    }
    const centre = y + ABOVE + tall / 2;
    const start = labels.width + widths.memory;
    body += line(start + 2, middle, start + widths.gap - 5, centre, sheet.theme.roles.memory.fill, 1);
    body += drawLane(data, data.lanes[layer] as Lane, start + widths.gap, y + ABOVE, tall, widths, sheet);
    y += pitch;
  }
  return {
    title: 'From the encoder’s output to K and V of every decoder layer',
    description: sentences(data),
    body,
    height,
  };
}

interface Widths {
  memory: number;
  gap: number;
  weight: number;
  made: number;
}

function columnWidths(sheet: Sheet, labels: number): Widths {
  const gap = sheet.narrow ? 16 : 30;
  const room = sheet.width - labels - gap;
  // memory 1.2, twice a weight 0.8 and what it makes 1.2, signs; beside them the encoder's two.
  const signs = sheet.narrow ? 2 * 11 + 10 : 2 * 14 + 14 + 50;
  const unit = (room - signs) / (sheet.narrow ? 5.2 : 6.8);
  return { memory: unit * 1.2, gap, weight: unit * 0.8, made: unit * 1.2 };
}

function drawLane(
  data: BridgeData,
  lane: Lane,
  left: number,
  top: number,
  tall: number,
  widths: Widths,
  sheet: Sheet,
): string {
  const arrow = sheet.narrow ? 11 : 14;
  const centre = top + tall / 2;
  const ground = top + tall + 11.5;
  const pairs = [
    { letter: 'K', role: 'k' as Role, weight: lane.wk, made: lane.k, shared: lane.kSharedWith },
    { letter: 'V', role: 'v' as Role, weight: lane.wv, made: lane.v, shared: lane.vSharedWith },
  ];
  let x = left;
  let body = '';
  for (const pair of pairs) {
    const weight = { x, y: top, width: widths.weight, height: tall };
    body += drawMatrix(sheet, pair.weight, weight, {
      role: pair.role,
      kind: 'weight',
      label: `W_${pair.letter}^{${lane.layer}}`,
      sizes: 'none',
    });
    const whose = pair.shared === null ? 'own' : `shared with ${shortened(pair.shared)}`;
    const ink = {
      fill: pair.shared === null ? sheet.theme.roles[pair.role].text : sheet.theme.accent,
      anchor: 'middle' as const,
      bold: true,
    };
    const room = pair.shared === null ? widths.weight + 8 : widths.weight + arrow + widths.made;
    const middle = pair.shared === null ? x + widths.weight / 2 : x + room / 2;
    body += text(middle, ground, cut(whose, room, 8, true), ink);
    x += widths.weight;
    body += sign(sheet, x + arrow / 2 + 1, centre, '→');
    x += arrow + 2;
    const made = { x, y: top, width: widths.made, height: tall };
    body += drawMatrix(sheet, pair.made, made, {
      role: pair.role,
      kind: 'activation',
      label: `${pair.letter}^{${lane.layer}}`,
      parts: data.heads,
      sizes: sheet.narrow || pair.shared !== null ? 'none' : 'below',
    });
    x += widths.made + (sheet.narrow ? 10 : 14) - 2;
  }
  return sheet.narrow ? body : body + encoders(data, lane, x, top, tall, widths, sheet);
}

/** The encoder's top layer's matrices, greyed, because they are not the ones that are used. */
function encoders(
  data: BridgeData,
  lane: Lane,
  left: number,
  top: number,
  tall: number,
  widths: Widths,
  sheet: Sheet,
): string {
  const sides: [string, MaybeMatrix, number | null, Role, string | null][] = [
    ['K', data.encoderTop.wk, lane.kCosine, 'k', lane.kSharedWith],
    ['V', data.encoderTop.wv, lane.vCosine, 'v', lane.vSharedWith],
  ];
  const encoder = `encoder.layers.${data.encoderTop.layer}.`;
  let x = left + 8;
  const same = sides.some(([, , , , shared]) => shared !== null && shared.startsWith(encoder));
  let body = sign(sheet, x, top + tall / 2, same ? '=' : '≠');
  x += 12;
  for (const [letter, matrix, cosine, role] of sides) {
    const box = { x, y: top, width: widths.weight, height: tall };
    body += drawMatrix(sheet, matrix, box, {
      role,
      kind: 'weight',
      label: `enc. W_${letter}`,
      pale: true,
      sizes: 'none',
    });
    const said = cosine === null ? '' : `cos ${signed(cosine)}`;
    body += text(x + widths.weight / 2, top + tall + 11.5, said, { fill: sheet.theme.quiet, anchor: 'middle' });
    x += widths.weight + 12;
  }
  return body;
}

/** Two digits, and no −0.00. */
function signed(x: number): string {
  const rounded = Math.round(x * 100) / 100;
  return (rounded === 0 ? 0 : rounded).toFixed(2).replace('-', '−');
}

/** "decoder.layers.0.cross_attention.k_proj.weight" as "decoder 0 cross W_K". */
function shortened(name: string): string {
  const found = /^(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention\.([qkv])_proj/.exec(name);
  return found ? `${found[1]} ${found[2]} ${found[3]} W_${(found[4] as string).toUpperCase()}` : name;
}

function sentences(data: BridgeData): string[] {
  const own = data.lanes.filter((lane) => lane.kSharedWith === null && lane.vSharedWith === null).length;
  const { rows, cols } = data.memory;
  const all = data.lanes.length;
  const whose =
    own === all
      ? `each of the ${all} decoder layers has its own W_K and W_V`
      : `${own} of ${all} decoder layers have W_K and W_V of their own, the others share them`;
  return [
    `The encoder’s output (memory, ${rows} × ${cols}) is the same for all;`,
    `${all === 1 ? 'the one decoder layer has its W_K and W_V' : whose}, and makes its K and V with them, once a sentence.`,
    ...alikeness(data),
  ];
}

/** How near the decoder's matrices are to the encoder's, where that can be said. */
function alikeness(data: BridgeData): string[] {
  const cosines = data.lanes.flatMap((lane) => [lane.kCosine, lane.vCosine]).filter((one) => one !== null);
  if (cosines.length === 0) return [];
  const [least, most] = [Math.min(...cosines), Math.max(...cosines)];
  const unrelated = Math.max(-least, most) < 0.2 ? 'unrelated matrices' : 'not all of them unrelated';
  return [
    `Their cosines with the encoder’s top layer’s W_K and W_V lie from ${decimal(least)} to ${decimal(most)}: ${unrelated}.`,
  ];
}
