// In what order the vertices of each layer stand, so that few edges cross and groups stay together.

const SWEEPS = 12;
/** Beyond so many neighbours two vertices are not compared one by one. */
const COMPARED = 2_500;

/**
 * Orders the layers in place. A group has the same place among others in every layer that it spans,
 * which is what lets it be a box.
 */
export function order(layers, groups, segments) {
  first(layers);
  settle(layers, groups);
  let best = layers.map((layer) => [...layer]);
  let least = crossings(layers);
  let shortest = lengths(segments);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const rightwards = sweep % 2 === 0;
    const course = rightwards ? layers : layers.toReversed();
    for (const layer of course) {
      for (const vertex of layer) vertex.key = middle(rightwards ? vertex.up : vertex.down) ?? vertex.at;
      arrange(layer);
    }
    settle(layers, groups);
    const now = crossings(layers);
    const length = lengths(segments);
    if (now < least || (now === least && length < shortest)) {
      [least, shortest] = [now, length];
      best = layers.map((layer) => [...layer]);
    }
  }
  for (const [index, layer] of best.entries()) {
    layers[index] = layer;
    number(layer);
  }
  if (least > 0 && segments.length < 6_000) exchange(layers);
}

/** Begins with the order in which a walk along the edges comes by, so that branches stay together. */
function first(layers) {
  let seen = 0;
  const all = layers.flat();
  for (const root of all) {
    const path = [root];
    while (path.length > 0) {
      const vertex = path.pop();
      if (vertex.key !== undefined) continue;
      vertex.key = seen;
      seen += 1;
      for (let index = vertex.down.length - 1; index >= 0; index -= 1) path.push(vertex.down[index].other);
    }
  }
  for (const layer of layers) {
    layer.sort((one, other) => one.key - other.key);
    number(layer);
  }
}

function number(layer) {
  const half = (layer.length - 1) / 2;
  for (const [index, vertex] of layer.entries()) {
    vertex.at = index - half;
    vertex.index = index;
  }
}

function middle(neighbours) {
  if (neighbours.length === 0) return undefined;
  let sum = 0;
  for (const { other } of neighbours) sum += other.at;
  return sum / neighbours.length;
}

/** Gives all one key each, of vertices and of groups, and sorts every layer by them. */
function settle(layers, groups) {
  for (const group of groups) Object.assign(group, { sum: 0, count: 0 });
  for (const vertex of layers.flat()) {
    vertex.key = vertex.at;
    for (let group = vertex.owner; group; group = group.parent) {
      group.sum += vertex.at;
      group.count += 1;
    }
  }
  for (const group of groups) group.key = group.sum / Math.max(1, group.count);
  for (const layer of layers) arrange(layer);
}

function arrange(layer) {
  layer.sort(compare);
  number(layer);
}

/** Compares two vertices of a layer where the groups around them part. */
function compare(one, other) {
  let [a, b] = [one.owner, other.owner];
  let [itemA, itemB] = [one, other];
  while (a.depth > b.depth) [itemA, a] = [a, a.parent];
  while (b.depth > a.depth) [itemB, b] = [b, b.parent];
  while (a !== b) [itemA, a, itemB, b] = [a, a.parent, b, b.parent];
  return itemA.key - itemB.key || (itemA === one ? 0 : 1) - (itemB === other ? 0 : 1) || itemA.serial - itemB.serial;
}

/** How far all edges lead up and down: of two orders with as many crossings the shorter one is better. */
function lengths(segments) {
  let sum = 0;
  for (const { from, to, weight } of segments) sum += weight * Math.abs(from.at - to.at);
  return sum;
}

/** How many pairs of edges cross, counted by a tree of sums for each two layers. */
function crossings(layers) {
  let count = 0;
  for (const layer of layers.slice(1)) {
    const ends = layer.flatMap((vertex) => vertex.up.map(({ other }) => [other.index, vertex.index]));
    ends.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    const sums = new Int32Array(layer.length + 1);
    for (const [seen, [, to]] of ends.entries()) {
      let upTo = 0;
      for (let place = to + 1; place > 0; place -= place & -place) upTo += sums[place];
      count += seen - upTo;
      for (let place = to + 1; place < sums.length; place += place & -place) sums[place] += 1;
    }
  }
  return count;
}

/** Exchanges neighbours of one group as long as that saves crossings. */
function exchange(layers) {
  for (let round = 0, better = true; round < 6 && better; round += 1) {
    better = false;
    for (const layer of layers) {
      for (let index = 0; index + 1 < layer.length; index += 1) {
        const [one, other] = [layer[index], layer[index + 1]];
        if (one.owner !== other.owner) continue;
        if (between(one, other) <= between(other, one)) continue;
        [layer[index], layer[index + 1]] = [other, one];
        [one.index, other.index] = [index + 1, index];
        better = true;
      }
    }
  }
  for (const layer of layers) number(layer);
}

/** How many edges of two vertices cross when the first stands above the second. */
function between(upper, lower) {
  let count = 0;
  for (const side of ["up", "down"]) {
    if (upper[side].length * lower[side].length > COMPARED) continue;
    for (const { other: one } of upper[side]) for (const { other } of lower[side]) if (one.index > other.index) count += 1;
  }
  return count;
}
