// View `cross-attention`: K and V of each decoder layer, computed from the encoder's output with its own W_K and W_V.
import type { Canvas, Drawing } from '../canvas';
import { decimal, plural } from '../formatting';
import { RowLabels, rowPitch } from '../labels';
import { drawMatrix, SPACE_ABOVE, SPACE_BELOW } from '../matrix';
import { line } from '../svg';
import { text, truncate } from '../text';
import type { Role } from '../theme';
import type { CrossAttentionData, LayerKeysValues, MaybeMatrix } from '../types';
import { drawnIndices } from './multiHead';
import { sign } from './qkv';

const MAX_LAYERS = 6;

export function crossAttention(data: CrossAttentionData, canvas: Canvas): Drawing {
  canvas.note('Layers are counted from 0.');
  const labels = new RowLabels(canvas, data.tokens, canvas.narrow ? 26 : 46);
  const shown = drawnIndices(data.layers.length, MAX_LAYERS);
  const widths = columnWidths(canvas, labels.width);
  const matrixHeight = shown.length <= 3 ? 54 : 40;
  const pitch = matrixHeight + SPACE_ABOVE + SPACE_BELOW + 15;
  const layersHeight = shown.reduce<number>((sum, layer) => sum + (layer === null ? 16 : pitch), 0);
  const memoryPitch = rowPitch(data.tokens.length, 190);
  const memoryHeight = memoryPitch * data.tokens.length;
  const height = Math.max(layersHeight, memoryHeight + SPACE_ABOVE + SPACE_BELOW);
  const middle = (height - SPACE_BELOW + SPACE_ABOVE) / 2;

  const top = middle - memoryHeight / 2;
  let body = labels.draw(labels.width, top, memoryPitch);
  const box = { x: labels.width, y: top, width: widths.memory, height: memoryHeight };
  body += drawMatrix(canvas, data.memory, box, { role: 'memory', kind: 'activation', label: 'memory' });
  let y = (height - layersHeight) / 2;
  for (const layer of shown) {
    if (layer === null) {
      const rest = `⋮ ${plural(data.layers.length - shown.length + 1, 'more layer')}`;
      body += text(labels.width + widths.memory + 30, y + 10, rest, { fill: canvas.theme.quiet });
      y += 16;
      continue;
    }
    const centre = y + SPACE_ABOVE + matrixHeight / 2;
    const start = labels.width + widths.memory;
    body += line(start + 2, middle, start + widths.gap - 5, centre, canvas.theme.roles.memory.fill, 1);
    body += drawLayer(
      data,
      data.layers[layer] as LayerKeysValues,
      start + widths.gap,
      y + SPACE_ABOVE,
      matrixHeight,
      widths,
      canvas,
    );
    y += pitch;
  }
  return {
    title: 'Cross-attention: K and V of each decoder layer, from the encoder’s output',
    description: sentences(data),
    body,
    height,
  };
}

interface Widths {
  memory: number;
  gap: number;
  weight: number;
  result: number;
}

function columnWidths(canvas: Canvas, labels: number): Widths {
  const gap = canvas.narrow ? 16 : 30;
  const room = canvas.width - labels - gap;
  // In units: memory 1.2, then twice a weight of 0.8 and its result of 1.2, and the encoder's two weights beside them.
  const signs = canvas.narrow ? 2 * 11 + 10 : 2 * 14 + 14 + 50;
  const unit = (room - signs) / (canvas.narrow ? 5.2 : 6.8);
  return { memory: unit * 1.2, gap, weight: unit * 0.8, result: unit * 1.2 };
}

function drawLayer(
  data: CrossAttentionData,
  layer: LayerKeysValues,
  left: number,
  top: number,
  matrixHeight: number,
  widths: Widths,
  canvas: Canvas,
): string {
  const arrow = canvas.narrow ? 11 : 14;
  const centre = top + matrixHeight / 2;
  const baseline = top + matrixHeight + 11.5;
  const pairs = [
    { letter: 'K', role: 'k' as Role, weight: layer.wk, result: layer.k, shared: layer.kSharedWith },
    { letter: 'V', role: 'v' as Role, weight: layer.wv, result: layer.v, shared: layer.vSharedWith },
  ];
  let x = left;
  let body = '';
  for (const pair of pairs) {
    const weight = { x, y: top, width: widths.weight, height: matrixHeight };
    body += drawMatrix(canvas, pair.weight, weight, {
      role: pair.role,
      kind: 'weight',
      label: `W_${pair.letter}^{${layer.layer}}`,
      sizes: 'none',
    });
    const ownership = pair.shared === null ? 'own' : `shared with ${shortened(pair.shared)}`;
    const ink = {
      fill: pair.shared === null ? canvas.theme.roles[pair.role].text : canvas.theme.accent,
      anchor: 'middle' as const,
      bold: true,
    };
    const room = pair.shared === null ? widths.weight + 8 : widths.weight + arrow + widths.result;
    const middle = pair.shared === null ? x + widths.weight / 2 : x + room / 2;
    body += text(middle, baseline, truncate(ownership, room, 8, true), ink);
    x += widths.weight;
    body += sign(canvas, x + arrow / 2 + 1, centre, '→');
    x += arrow + 2;
    const result = { x, y: top, width: widths.result, height: matrixHeight };
    body += drawMatrix(canvas, pair.result, result, {
      role: pair.role,
      kind: 'activation',
      label: `${pair.letter}^{${layer.layer}}`,
      parts: data.heads,
      sizes: canvas.narrow || pair.shared !== null ? 'none' : 'below',
    });
    x += widths.result + (canvas.narrow ? 10 : 14) - 2;
  }
  return canvas.narrow ? body : body + encoderWeights(data, layer, x, top, matrixHeight, widths, canvas);
}

/** W_K and W_V of the encoder's last layer, greyed out because cross-attention does not use them. */
function encoderWeights(
  data: CrossAttentionData,
  layer: LayerKeysValues,
  left: number,
  top: number,
  matrixHeight: number,
  widths: Widths,
  canvas: Canvas,
): string {
  const sides: [string, MaybeMatrix, number | null, Role, string | null][] = [
    ['K', data.encoderTop.wk, layer.kCosine, 'k', layer.kSharedWith],
    ['V', data.encoderTop.wv, layer.vCosine, 'v', layer.vSharedWith],
  ];
  const encoder = `encoder.layers.${data.encoderTop.layer}.`;
  let x = left + 8;
  const same = sides.some(([, , , , shared]) => shared !== null && shared.startsWith(encoder));
  let body = sign(canvas, x, top + matrixHeight / 2, same ? '=' : '≠');
  x += 12;
  for (const [letter, matrix, cosine, role] of sides) {
    const box = { x, y: top, width: widths.weight, height: matrixHeight };
    body += drawMatrix(canvas, matrix, box, {
      role,
      kind: 'weight',
      label: `enc. W_${letter}`,
      pale: true,
      sizes: 'none',
    });
    const label = cosine === null ? '' : `cos ${signed(cosine)}`;
    body += text(x + widths.weight / 2, top + matrixHeight + 11.5, label, {
      fill: canvas.theme.quiet,
      anchor: 'middle',
    });
    x += widths.weight + 12;
  }
  return body;
}

/** Two decimals, and no −0.00. */
function signed(x: number): string {
  const rounded = Math.round(x * 100) / 100;
  return (rounded === 0 ? 0 : rounded).toFixed(2).replace('-', '−');
}

/** "decoder.layers.0.cross_attention.k_proj.weight" as "decoder 0 cross W_K". */
function shortened(name: string): string {
  const match = /^(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention\.([qkv])_proj/.exec(name);
  return match ? `${match[1]} ${match[2]} ${match[3]} W_${(match[4] as string).toUpperCase()}` : name;
}

function sentences(data: CrossAttentionData): string[] {
  const untied = data.layers.filter((layer) => layer.kSharedWith === null && layer.vSharedWith === null).length;
  const { rows, cols } = data.memory;
  const all = data.layers.length;
  return [
    `${all === 1 ? 'The decoder layer' : `Each of the ${all} decoder layers`} computes its K and V once per sentence`,
    `from the encoder’s output (memory, ${rows} × ${cols})${untied === all ? ', with its own W_K and W_V' : ''}.`,
    untied === all ? '' : `Layers with their own W_K and W_V: ${untied} of ${all}; the others share them.`,
    ...similarity(data),
  ].filter((sentence) => sentence !== '');
}

/** Cosines of the decoder's weights with the encoder's, if known. */
function similarity(data: CrossAttentionData): string[] {
  const cosines = data.layers.flatMap((layer) => [layer.kCosine, layer.vCosine]).filter((cosine) => cosine !== null);
  if (cosines.length === 0) return [];
  const [smallest, largest] = [Math.min(...cosines), Math.max(...cosines)];
  const verdict = Math.max(-smallest, largest) < 0.2 ? 'unrelated matrices' : 'not all are unrelated';
  return [
    `Cosines with W_K and W_V of the encoder’s last layer: ${decimal(smallest)} to ${decimal(largest)} (${verdict}).`,
  ];
}
