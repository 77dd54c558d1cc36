// A trace that was saved with `Trace.to_html`: what it is of as JSON, its numbers as a safetensors file in gzip.
import type { Saved } from './host';
import type { Manifest, ModelInfo } from './manifest';
import { readSafetensors } from './safetensors';
import { fileSource } from './source';

/** As `glassformer.inspection.explorer` writes it. */
export interface SavedAbout {
  manifest: Manifest;
  model: ModelInfo;
  half: boolean;
}

export async function savedTrace(about: SavedAbout, packed: Uint8Array<ArrayBuffer>): Promise<Saved> {
  const file = readSafetensors(await inflated(packed));
  return { ...about, source: fileSource(file, about.manifest.shared) };
}

async function inflated(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
