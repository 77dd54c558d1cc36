// Class names of Svelte components: a short hash, because they occur thousands of times in the built files.
const files = new Map<string, string>();

export function cssHash({ hash, filename }: { hash: (text: string) => string; filename: string }): string {
  const file = filename.replace(/^.*\/src\//, '');
  const short = `g${hash(file).slice(0, 3)}`;
  if ((files.get(short) ?? file) !== file)
    throw new Error(`${file} and ${files.get(short)} would get the same class name: use a longer hash.`);
  files.set(short, file);
  return short;
}
