// Runs LoopX's own PostgreSQL adapter on behalf of a test. The adapter takes any
// driver of a certain shape; this one sends each statement to the test over
// standard output and gets its rows over standard input, one JSON line each way.
//
//   node adapter.mjs FOLDER TENANT GOAL      FOLDER holds postgresql_authority_store.ts
//
// Lines from the test: {"call":NAME,"args":[...]} or {"rows":[...],"rowCount":N} or
// {"error":TEXT,"code":SQLSTATE}. Lines to it: {"query":TEXT,"values":[...],"conn":N},
// {"release":N,"broken":BOOL}, {"answer":...}.
import { createInterface } from "node:readline";

const [folder, tenant_id, goal_id] = process.argv.slice(2);
const adapter = await import(`${folder}/postgresql_authority_store.ts`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const hear = async () => {
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return JSON.parse(value);
};

let connections = 0;
const database = {
  connect: async () => {
    const conn = ++connections;
    return {
      query: async (query, values = []) => {
        say({ query, values, conn });
        const { rows, rowCount, error, code } = await hear();
        if (error) throw Object.assign(new Error(error), { code });
        return { rows, rowCount };
      },
      release: (error) => say({ release: conn, broken: error !== undefined }),
    };
  },
};
const store = new adapter.PostgreSqlAuthorityStore(database, { tenant_id, goal_id });
const calls = {
  install: (identity) => adapter.installPostgreSqlAuthorityStoreSchema(database, identity),
  identity: () => store.storeIdentity(),
  load: () => store.loadAuthority(),
  commit: (request) => store.commitAuthority(request),
  receipt: (id) => store.readReceipt(id),
  scan: (after, limit) => store.scanCommitted(after, limit),
};

for (;;) {
  const { call, args } = await hear();
  let answer;
  try {
    answer = await calls[call](...args);
  } catch (error) {
    answer = { thrown: String(error?.message ?? error) };
  }
  say({ answer: answer ?? null });
}
