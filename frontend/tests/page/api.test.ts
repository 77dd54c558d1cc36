// Client of the server's routes: error messages, cancelled requests, tensors.
import { describe, expect, it } from 'vitest';
import { ApiError, httpApi } from '../../src/page/data/api';
import { expandLayers } from '../../src/page/data/manifest';

const answering = (answer: Response | (() => Promise<Response>)) =>
  httpApi('', async () => (answer instanceof Response ? answer : answer()));

describe('the client', () => {
  it('passes on the error message of the server', async () => {
    const api = answering(new Response('{"error": "The text is blank. Send a text to trace."}', { status: 422 }));
    await expect(api.explore({ text: '' })).rejects.toEqual(
      new ApiError('The text is blank. Send a text to trace.', 422),
    );
  });

  it('says what to do without an error message, or without a server', async () => {
    await expect(answering(new Response('<html>', { status: 502 })).model()).rejects.toThrow('502');
    await expect(answering(() => Promise.reject(new TypeError('fetch failed'))).model()).rejects.toThrow(
      'Check that it is still running',
    );
  });

  it('cancels a trace when another is requested', async () => {
    const given: AbortSignal[] = [];
    const api = httpApi('', async (_, init) => {
      given.push(init?.signal as AbortSignal);
      return new Response('{}');
    });
    await api.explore({ text: 'a' });
    await api.explore({ text: 'b' });
    expect(given.map((signal) => signal.aborted)).toEqual([true, false]);
  });

  it('reads numbers with their shape from a safetensors file', async () => {
    const header = new TextEncoder().encode('{"memory":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}');
    const sent = [BigUint64Array.of(BigInt(header.length)), header, new Float32Array([1, 2])];
    const found = await answering(new Response(new Blob(sent))).tensor('id', 'memory');
    expect(found).toEqual({ values: new Float32Array([1, 2]), shape: [2, 1] });
  });
});

describe('a manifest', () => {
  it('is expanded to the names of all layers', () => {
    const entries = [
      { name: 'memory', shape: [1] },
      { name: 'a.*.b', layers: 2, shape: [1] },
      { name: 'c.*', layers: [0, 3], shape: [1] },
    ];
    expect([...expandLayers(entries).keys()]).toEqual(['memory', 'a.0.b', 'a.1.b', 'c.0', 'c.3']);
  });
});
