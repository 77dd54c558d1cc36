// A trace saved by `Trace.to_html`: its description as JSON, its tensors as a gzipped safetensors file.
import type { SavedTrace } from './host';
import type { Manifest, ModelInfo } from './manifest';
import { readSafetensors } from './safetensors';
import { fileSource } from './source';

/** Written by `glassformer.inspection.explorer`. */
export interface SavedTraceInfo {
  manifest: Manifest;
  model: ModelInfo;
  half: boolean;
}

export async function openSavedTrace(about: SavedTraceInfo, packed: Uint8Array<ArrayBuffer>): Promise<SavedTrace> {
  const file = readSafetensors(await decompress(packed));
  return { ...about, source: fileSource(file, about.manifest.shared) };
}

async function decompress(packed: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
