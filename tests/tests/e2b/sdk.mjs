// What users of E2B's SDK for JavaScript do, against a server that E2B_API_URL and the other variables name.

import assert from 'node:assert/strict'
import { Sandbox, CommandExitError, NotFoundError } from '@e2b/code-interpreter'

const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { for: 'a & b' } })

const parts = {
  async life() {
    assert(await sandbox.isRunning())
    assert.deepEqual((await sandbox.getInfo()).metadata, { for: 'a & b' })
    await sandbox.setTimeout(300_000)
    const pages = Sandbox.list({ query: { metadata: { for: 'a & b' } } })
    assert.deepEqual((await pages.nextItems()).map(found => found.sandboxId), [sandbox.sandboxId])
    assert(!pages.hasNext)
    assert((await sandbox.getMetrics())[0].cpuCount >= 1)
    assert(await (await Sandbox.connect(sandbox.sandboxId)).isRunning())
  },

  async code() {
    const execution = await sandbox.runCode('x = 1\nprint(2)\nx + 1', { envs: { A: 'b' } })
    assert.equal(execution.text, '2')
    assert.deepEqual(execution.logs.stdout, ['2\n'])
    assert.equal((await sandbox.runCode('1/0')).error.name, 'ZeroDivisionError')
    const context = await sandbox.createCodeContext({ cwd: '/home/user/elsewhere' })
    assert((await sandbox.runCode('import os; os.getcwd()', { context })).text.endsWith('/elsewhere'))
    assert.equal((await sandbox.listCodeContexts()).at(-1).id, context.id)
    await sandbox.restartCodeContext(context.id)
    await sandbox.removeCodeContext(context.id)
  },

  async files() {
    await sandbox.files.write('a.txt', 'hé')
    assert.equal(await sandbox.files.read('a.txt'), 'hé')
    assert(await sandbox.files.makeDir('d'))
    assert(!(await sandbox.files.makeDir('d')))
    await sandbox.files.rename('a.txt', 'd/b.txt')
    assert.deepEqual((await sandbox.files.list('d')).map(entry => entry.path), ['/home/user/d/b.txt'])
    await sandbox.files.remove('d')
    assert(!(await sandbox.files.exists('d')))
    await assert.rejects(sandbox.files.read('missing'), NotFoundError)
    await sandbox.files.write([{ path: 'one', data: '1' }, { path: 'two', data: '2' }])
    let text = ''
    for await (const piece of await sandbox.files.read('two', { format: 'stream' })) {
      text += new TextDecoder().decode(piece)
    }
    assert.equal(text, '2')
  },

  async urls() {
    const down = await sandbox.downloadUrl('one', { useSignatureExpiration: 60 })
    assert.equal(await (await fetch(down)).text(), '1')
    assert.equal((await fetch(down.replace('one', 'two'))).status, 401)
    const form = new FormData()
    form.append('file', new Blob(['up']), 'up.txt')
    const up = await sandbox.uploadUrl('up.txt')
    assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
    assert.equal(await sandbox.files.read('up.txt'), 'up')
  },

  async commands() {
    const said = await sandbox.commands.run('echo hi; pwd')
    assert.equal(said.stdout, 'hi\n/home/user\n')
    await assert.rejects(sandbox.commands.run('exit 4'), error => {
      assert(error instanceof CommandExitError)
      return error.exitCode === 4
    })
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    await sandbox.commands.sendStdin(cat.pid, 'typed')
    await sandbox.commands.closeStdin(cat.pid)
    assert.equal((await cat.wait()).stdout, 'typed')
    const sleeping = await sandbox.commands.run('sleep 100', { background: true })
    assert((await sandbox.commands.list()).some(found => found.pid === sleeping.pid))
    assert(await (await sandbox.commands.connect(sleeping.pid)).kill())
    await assert.rejects(sleeping.wait())
  },

  async terminals() {
    let shown = ''
    const onData = data => { shown += new TextDecoder().decode(data) }
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData })
    await sandbox.pty.resize(terminal.pid, { cols: 90, rows: 20 })
    await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
    await terminal.wait()
    assert(shown.includes('20 90'), shown)
  },

  async watching() {
    const seen = resolvers()
    const watcher = await sandbox.files.watchDir('/home/user', event => {
      if (event.name === 'watched.txt') seen.resolve(event.type)
    })
    await sandbox.files.write('watched.txt', '1')
    assert.equal(await seen.promise, 'create')
    await watcher.stop()
  },

  async pausing() {
    const other = await Sandbox.create({ timeoutMs: 120_000 })
    await other.runCode('kept = 9')
    await other.pause()
    assert(!(await other.isRunning()))
    const again = await Sandbox.connect(other.sandboxId)
    assert.equal((await again.runCode('kept')).text, '9')
    assert(await again.kill())
  },

  async end() {
    assert(await sandbox.kill())
    assert(!(await sandbox.isRunning()))
    assert(!(await sandbox.kill()))
  },
}

function resolvers() {
  const made = {}
  made.promise = new Promise(resolve => { made.resolve = resolve })
  return made
}

for (const [name, part] of Object.entries(parts)) {
  console.log(name)
  await part()
}
console.log('passed')
