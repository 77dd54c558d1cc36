// Sends the requests of the forms on /docs, and shows what the server answers. The API key is kept nowhere.
const shown = async (response) => {
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('application/json')) return JSON.stringify(await response.json(), null, 2);
  if (type.startsWith('text/plain')) return response.text();
  return `${type}, ${(await response.arrayBuffer()).byteLength} bytes`;
};

for (const form of document.querySelectorAll('form[data-path]')) {
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const output = form.querySelector('output');
    const query = new URLSearchParams();
    let path = form.dataset.path;
    for (const input of form.querySelectorAll('input')) {
      if (input.dataset.in === 'path') path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
      else if (input.value !== '') query.set(input.name, input.value);
    }
    const key = document.querySelector('#key')?.value ?? '';
    const headers = key === '' ? {} : { authorization: `Bearer ${key}` };
    const body = form.querySelector('textarea')?.value;
    if (body !== undefined) headers['content-type'] = 'application/json';
    output.textContent = '…';
    try {
      const began = performance.now();
      // "." is the page's directory: also below a root path.
      const response = await fetch(`.${path}${query.size ? `?${query}` : ''}`, {
        method: form.dataset.method,
        headers,
        body,
      });
      const text = await shown(response);
      output.textContent = `${response.status}, ${Math.round(performance.now() - began)} ms\n${text}`;
    } catch (error) {
      output.textContent = `The server did not answer: ${error.message}`;
    }
  });
}
