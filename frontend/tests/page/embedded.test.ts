// The explorer without its server: tensor slices, requests over messages, saved traces and numbers.
import { describe, expect, it } from 'vitest';
import { sliceTensor } from '../../src/page/data/tensorSlice';
import { messageFetch, type Messages } from '../../src/page/data/messages';
import { fromBase64, openSavedTrace } from '../../src/page/data/savedTrace';
import type { Tensor } from '../../src/page/data/tensor';
import { asCsv, type Table } from '../../src/page/save/numbers';

const tensor = (shape: number[]): Tensor => ({
  values: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i - 5),
  shape,
});

describe('slices of a tensor', () => {
  it('are rows of the axis before the last, and columns of the last', () => {
    const found = sliceTensor(tensor([2, 3, 4]), { rows: '1:', cols: '2' });
    expect(found.shape).toEqual([2, 2, 1]);
    expect([...found.values]).toEqual([6, 10, 18, 22].map((i) => i - 5));
    expect(sliceTensor(tensor([3, 4]), { rows: '1' }).shape).toEqual([1, 4]);
    expect([...sliceTensor(tensor([4]), { cols: '1:3' }).values]).toEqual([-4, -3]);
  });

  it('are summarised by the number of largest magnitude', () => {
    const small = sliceTensor(tensor([4, 4]), { to: '2x2' });
    expect(small.shape).toEqual([2, 2]);
    expect([...small.values]).toEqual([-5, -3, 8, 10]);
    expect(sliceTensor(tensor([2, 2]), { to: '64x64' }).shape).toEqual([2, 2]); // never more than there is
  });
});

interface Channel extends Messages {
  sent: { id: string; path: string }[];
  deliver: (content: unknown, bytes: number[]) => void;
}

/** A notebook's channel that a test can send messages through. */
function channel(): Channel {
  let listener: (content: unknown, buffers: DataView[]) => void = () => {};
  const sent: Channel['sent'] = [];
  return {
    sent,
    send: (content) => void sent.push(content as Channel['sent'][0]),
    on: (_, added) => void (listener = added),
    off: () => {},
    deliver: (content, bytes) => listener(content, [new DataView(Uint8Array.from([0, ...bytes]).buffer, 1)]),
  };
}

describe('requests over messages', () => {
  it('join the pieces of a response, in any order', async () => {
    const notebook = channel();
    const coming = messageFetch(notebook).fetch('/api/model');
    const about = { id: notebook.sent[0]?.id, pieces: 2, status: 200, headers: { 'x-shape': '3' } };
    notebook.deliver({ ...about, id: 'of another page', piece: 0 }, [9]);
    notebook.deliver({ ...about, piece: 1 }, [3]);
    notebook.deliver({ ...about, piece: 0 }, [1, 2]);
    const answer = await coming;
    expect([...new Uint8Array(await answer.arrayBuffer())]).toEqual([1, 2, 3]);
    expect(answer.headers.get('x-shape')).toBe('3');
  });

  it('can be cancelled', async () => {
    const leaving = new AbortController();
    const coming = messageFetch(channel()).fetch('/api/explore', { signal: leaving.signal });
    leaving.abort();
    await expect(coming).rejects.toMatchObject({ name: 'AbortError' });
  });
});

/** A safetensors file with one number under two names, in gzip and base64. */
async function saved(): Promise<string> {
  const entry = { dtype: 'F32', shape: [1], data_offsets: [0, 4] };
  const about = {
    same: { b: 'a' },
    page: { manifest: { shared: { tied: 'w' } }, model: { name: 'small' }, half: false },
  };
  const header = { __metadata__: { 'glassformer.trace': JSON.stringify(about) }, a: entry, 'parameters.w': entry };
  const list = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + list.length + 4);
  new DataView(file.buffer).setBigUint64(0, BigInt(list.length), true);
  file.set(list, 8);
  new DataView(file.buffer).setFloat32(8 + list.length, 1.5, true);
  const packed = await new Response(new Blob([file]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer();
  return btoa(String.fromCharCode(...new Uint8Array(packed)));
}

describe('a saved trace', () => {
  it('is decompressed, and shared tensors are found by each name', async () => {
    const { source, model } = await openSavedTrace(fromBase64(await saved()));
    expect(model.name).toBe('small');
    expect((await source.tensor('b')).values[0]).toBe(1.5);
    expect((await source.weight('tied'))?.values[0]).toBe(1.5);
    expect(await source.weight('other')).toBeNull();
    await expect(source.tensor('other')).rejects.toThrow('does not contain');
  });
});

describe('numbers as CSV', () => {
  it('survive commas, quotes and what a spreadsheet would take for a formula', () => {
    const table: Table = { name: 'w', rows: ['=1+1', 'a "b", c'], columns: ['x'], values: [[-1.5], [null]] };
    const [head, ...lines] = asCsv([table]).split('\r\n');
    expect(head).toBe('table,row,row_name,column,column_name,value');
    expect(lines).toEqual(["w,0,'=1+1,0,x,-1.5", 'w,1,"a ""b"", c",0,x,', '']);
  });
});
