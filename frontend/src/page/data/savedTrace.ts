// A trace saved by `Trace.to_html`: a gzipped trace file, whose metadata also has what the explorer needs.
import type { SavedTrace } from './host';
import { readSafetensors } from './safetensors';
import { fileSource } from './source';

/** Metadata written by `glassformer.inspection.tracing.trace_file` and `glassformer.inspection.explorer`. */
interface TraceInfo {
  same: Record<string, string>;
  page: Omit<SavedTrace, 'source'>;
}

export async function openSavedTrace(packed: Uint8Array<ArrayBuffer>): Promise<SavedTrace> {
  const file = readSafetensors(await decompress(packed));
  const { same, page } = JSON.parse(file.metadata['glassformer.trace'] ?? '') as TraceInfo;
  return { ...page, source: fileSource(file, same, page.manifest.shared) };
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
