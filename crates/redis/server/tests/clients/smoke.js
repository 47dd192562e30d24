// node-redis against a server: RESP2, RESP3-style pipelines, transactions, scans, errors.
const { createClient, WatchError } = require("redis");
const assert = require("node:assert");

async function step(name, work) {
  await work();
  console.log(`ok ${name}`);
}

async function main() {
  const url = `redis://127.0.0.1:${process.argv[2]}`;
  const client = createClient({ url, name: "smoke" });
  const other = createClient({ url, database: 2 });
  await client.connect();
  await other.connect();
  await step("set and get", async () => {
    assert.equal(await client.set("k", "v", { EX: 100 }), "OK");
    assert.equal(await client.get("k"), "v");
    assert.equal(await client.ttl("k"), 100);
    assert.equal(await client.get("none"), null);
    assert.equal(await client.clientGetName(), "smoke");
  });
  await step("bytes", async () => {
    const bytes = Buffer.from([0, 13, 10, 255]);
    await client.set("bytes", bytes);
    const options = require("redis").commandOptions({ returnBuffers: true });
    assert.deepEqual(await client.get(options, "bytes"), bytes);
  });
  await step("a pipeline of ten thousand", async () => {
    const all = [];
    for (let n = 0; n < 10000; n++) all.push(client.incr("n"));
    const replies = await Promise.all(all);
    assert.equal(replies[9999], 10000);
  });
  await step("a transaction", async () => {
    const replies = await client.multi().set("a", "1").incrBy("a", 4).get("a").exec();
    assert.deepEqual(replies, ["OK", 5, "5"]);
  });
  await step("a transaction that is aborted", async () => {
    await client.executeIsolated(async (isolated) => {
      await isolated.watch("a");
      await client.set("a", "changed");
      await assert.rejects(isolated.multi().set("a", "mine").exec(), WatchError);
    });
  });
  await step("errors", async () => {
    await assert.rejects(client.incr("a"), /not an integer/);
    await assert.rejects(client.lPush("l", "x"), /unknown command/);
    assert.equal(await client.ping(), "PONG");
  });
  await step("a scan", async () => {
    const pairs = Array.from({ length: 500 }, (_, n) => [`scan:${n}`, "v"]);
    await client.mSet(pairs);
    const seen = new Set();
    for await (const key of client.scanIterator({ MATCH: "scan:*", COUNT: 17 })) seen.add(key);
    assert.equal(seen.size, 500);
  });
  await step("another database", async () => {
    assert.equal(await other.get("k"), null);
    await other.set("k", "2");
    assert.equal(await client.get("k"), "v");
    await other.flushDb();
  });
  await step("information", async () => {
    assert.match(await client.info("server"), /redis_version:7\.2\.4/);
    assert.equal((await client.configGet("databases")).databases, "16");
    assert.ok((await client.commandCount()) > 60);
  });
  await client.flushAll();
  await client.quit();
  await other.quit();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
