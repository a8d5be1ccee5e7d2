// LibreChat's own code tools (@librechat/agents), called with what its tool node injects, and uploads
// and downloads by the libraries, headers and forms that LibreChat's server has for them.
//
//   LIBRECHAT_CODE_BASEURL=… node client.cjs
const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const axios = require('axios');
const FormData = require('form-data');

// The package exports all of itself at once, models and telemetry included: these are its files.
const tools = '@librechat/agents/dist/cjs/tools';
const at = (file) => require(`./node_modules/${tools}/${file}.cjs`);
const { createCodeExecutionTool, getCodeBaseURL } = at('CodeExecutor');
const { createBashExecutionTool } = at('BashExecutor');

const code = createCodeExecutionTool({});
const bash = createBashExecutionTool({});
const ids = /^[A-Za-z0-9_-]{21}$/;

async function call(tool, args, files = []) {
  const request = { name: tool.name, args, id: 'call', type: 'tool_call' };
  const injected = files.map((file) => ({ kind: 'user', resource_id: 'user', ...file }));
  const message = await tool.invoke({ ...request, session_id: 'earlier', _injected_files: injected });
  return { content: message.content, ...message.artifact };
}

async function upload(route, files) {
  const form = new FormData();
  form.append('kind', 'user');
  form.append('id', 'user');
  for (const [name, content] of files) {
    const filename = name.split('/').pop();
    const options = filename === name ? { filename } : { filename, filepath: name };
    form.append('file', Readable.from([content]), options);
  }
  const headers = { ...form.getHeaders(), 'Content-Type': 'multipart/form-data', 'User-Id': 'user' };
  return (await axios.post(`${getCodeBaseURL()}/${route}`, form, { headers })).data;
}

async function main() {
  const first = await call(code, { lang: 'py', code: "open('/mnt/data/a.txt', 'w').write('kept'); print('é')" });
  assert.match(first.content, /^stdout:\né(\n|$)/);
  assert.deepEqual(first.files.map((file) => file.name), ['a.txt']);
  assert.match(first.session_id, ids);
  assert.match(first.files[0].id, ids);

  const read = "import sys; print(open('/mnt/data/a.txt').read(), sys.argv[1:])";
  const again = await call(code, { lang: 'py', code: read, args: ["it's"] }, first.files);
  assert.match(again.content, /^stdout:\nkept \["it's"\](\n|$)/);
  assert.notEqual(again.session_id, first.session_id);
  const shell = await call(bash, { command: 'cat /mnt/data/a.txt "$1"; rm a.txt', args: ['a.txt'] }, first.files);
  assert.match(shell.content, /^stdout:\nkeptkept(\n|$)/);

  const failed = await call(code, { lang: 'py', code: '1/0' });
  assert.match(failed.content, /stderr:[^]*ZeroDivisionError/);
  await assert.rejects(call(code, { lang: 'rs', code: '' }), /returned 400, body: .*use py or bash/);
  const unknown = [{ ...first.files[0], id: 'A'.repeat(21) }];
  await assert.rejects(call(code, { lang: 'py', code: '1' }, unknown), /returned 404, body: .*unknown_file/);

  const one = await upload('upload', [['in é.csv', '1,2']]);
  assert.equal(one.message, 'success');
  const two = await upload('upload/batch', [['x.txt', 'x'], ['deep/y.txt', 'y']]);
  assert.deepEqual([two.succeeded, two.failed], [2, 0]);
  const refs = [one, two].flatMap((sent) => sent.files.map((file) => (
    { id: file.fileId, name: file.filename, storage_session_id: sent.storage_session_id })));
  const list = await call(bash, { command: "cd /mnt/data; cat 'in é.csv' x.txt deep/y.txt" }, refs);
  assert.match(list.content, /^stdout:\n1,2xy(\n|$)/);

  const query = '?kind=user&id=user';
  const file = `${one.storage_session_id}/${one.files[0].fileId}`;
  const got = await axios.get(`${getCodeBaseURL()}/download/${file}${query}`, { responseType: 'arraybuffer' });
  assert.equal(got.data.toString(), '1,2');
  const object = `${one.storage_session_id}/objects/${one.files[0].fileId}`;
  const { lastModified } = (await axios.get(`${getCodeBaseURL()}/sessions/${object}${query}`)).data;
  const age = Date.now() - new Date(lastModified);
  assert.ok(age < 3_600_000, lastModified);
  console.log('passed');
}

main();
