import assert from "node:assert/strict";
import test from "node:test";
import { format, parse, titlePath } from "../../src/routes";

const titles = ["bunny", "nature/bunny", "50% off", "a?b#c", "“quoted” & 'quoted'", "🎬 film/🐇", "%2F", "live", "ünï/çødé", "a+b"];

for (const title of titles) {
  test(`the title ${JSON.stringify(title)} survives its address`, () => {
    const address = new URL(format({ page: "film", title }), "http://host/");
    assert.deepEqual(parse(address.hash), { page: "film", title });
  });
}

test("a title's slashes stay slashes in its path, all else is encoded", () => {
  assert.equal(titlePath("a b/50%?#"), "a%20b/50%25%3F%23");
});

test("search and order of the library are kept in its address", () => {
  const route = { page: "library", query: "big & “bunny” 100%", sort: "-modified" } as const;
  assert.deepEqual(parse(format(route)), route);
});

test("the library is at the address without anything, in the order of names", () => {
  for (const hash of ["", "#", "#/", "#/?sort=nonsense"]) {
    assert.deepEqual(parse(hash), { page: "library", query: "", sort: "name" });
  }
  assert.equal(format({ page: "library", query: "", sort: "name" }), "#/");
});

test("an address that is none of ours is unknown, a stray % too", () => {
  for (const hash of ["#/nothing", "#/film/", "#/film/50%"]) assert.deepEqual(parse(hash), { page: "unknown" });
});
