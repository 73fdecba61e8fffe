// How high the vertices of a graph stand, when the order of each layer is known: edges are straight
// where they can be, and groups are boxes that nothing else is in.

const SWEEPS = 14;
const GAP = 18;
/** Between two of which one is no job: an edge that passes, or a group. */
const PASS_GAP = 10;
const BOX_GAP = 16;

/**
 * Gives every vertex its `y`, and every group `y` and `height`.
 *
 * @param {{ head: number, pad: number }} size of what a group needs above and below
 */
export function place(layers, groups, size) {
  for (const vertex of layers.flat()) Object.assign(vertex, { item: undefined, offset: 0 });
  const root = groups[0];
  arrange(root, layers, size);
  root.y = 0;
  lower(root, 0, size);
  for (const vertex of layers.flat()) vertex.y = vertex.offset;
}

/** Lays out what is in a group, the groups in it first, each of which is one rigid block then. */
function arrange(group, layers, size) {
  for (const child of group.children) arrange(child, layers, size);
  const { columns, items, members } = itemsOf(group, layers);
  const above = new Map(items.map((item) => [item, []]));
  const below = new Map(items.map((item) => [item, []]));
  for (const column of columns) {
    for (let index = 0; index + 1 < column.length; index += 1) {
      below.get(column[index]).push(column[index + 1]);
      above.get(column[index + 1]).push(column[index]);
    }
  }
  pack(items, above, below);
  const pulls = pullsOf(items, members);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const sides = sweep >= SWEEPS - 4 ? ["up", "down"] : [sweep % 2 === 0 ? "up" : "down"];
    const course = sweep % 2 === 0 ? columns : columns.toReversed();
    for (const column of course) align(column, pulls, sides);
    moveBlocks(items, above, below, pulls, sides, sweep % 2 === 0);
  }
  const top = items.reduce((least, item) => Math.min(least, item.top), Infinity);
  const bottom = items.reduce((most, item) => Math.max(most, item.top + item.size), -Infinity);
  const content = items.length === 0 ? 0 : bottom - top;
  group.height = group.parent ? size.head + content + size.pad : content;
  const inset = group.parent ? size.head : 0;
  for (const child of group.children) child.inParent = child.block.top - top + inset;
  for (const vertex of members) {
    vertex.offset += vertex.item.top - top + inset;
    vertex.item = undefined;
  }
}

/** Makes the places of groups absolute. */
function lower(group, y, size) {
  group.y = y;
  for (const child of group.children) lower(child, y + child.inParent, size);
}

function itemsOf(group, layers) {
  const items = [];
  const members = [];
  const blocks = new Map();
  const columns = [];
  for (const child of group.children) {
    child.block = { top: 0, size: child.height, block: true, members: [] };
    blocks.set(child, child.block);
    items.push(child.block);
  }
  for (const layer of layers.slice(Math.max(0, group.first), group.last + 1)) {
    const column = [];
    for (const vertex of layer) {
      let inner;
      let around = vertex.owner;
      while (around && around !== group) [inner, around] = [around, around.parent];
      if (!around) continue;
      members.push(vertex);
      if (inner) {
        vertex.item = blocks.get(inner);
        vertex.item.members.push(vertex);
      } else {
        vertex.item = { top: 0, size: vertex.height, block: false, real: vertex.real, members: [vertex] };
        items.push(vertex.item);
      }
      if (column.at(-1) !== vertex.item) column.push(vertex.item);
    }
    columns.push(column);
  }
  return { columns, items, members };
}

function gap(one, other) {
  if (one.block || other.block) return BOX_GAP;
  return one.real && other.real ? GAP : PASS_GAP;
}

/** Puts every item as high as those above let it. */
function pack(items, above, below) {
  const waits = new Map(items.map((item) => [item, above.get(item).length]));
  const ready = items.filter((item) => waits.get(item) === 0);
  for (const item of ready) {
    for (const over of above.get(item)) item.top = Math.max(item.top, over.top + over.size + gap(over, item));
    for (const under of below.get(item)) {
      waits.set(under, waits.get(under) - 1);
      if (waits.get(under) === 0) ready.push(under);
    }
  }
}

/** What pulls an item where: the edges of it that do not leave the group. */
function pullsOf(items, members) {
  const inside = new Set(members);
  const pulls = new Map();
  for (const item of items) {
    const sides = { up: [], down: [] };
    for (const vertex of item.members) {
      for (const side of ["up", "down"]) {
        for (const { other, weight } of vertex[side]) {
          if (!inside.has(other) || other.item === item) continue;
          sides[side].push({ other, weight, own: vertex.offset + vertex.height / 2 });
        }
      }
    }
    pulls.set(item, sides);
  }
  return pulls;
}

/** Where an item's top would be best, and how much that counts. */
function wish(item, pulls, sides) {
  let sum = 0;
  let weights = 0;
  for (const side of sides) {
    for (const { other, weight, own } of pulls.get(item)[side]) {
      sum += weight * (other.item.top + other.offset + other.height / 2 - own);
      weights += weight;
    }
  }
  return weights === 0 ? { top: item.top, weight: 0.02 } : { top: sum / weights, weight: weights };
}

/** Moves the items of a column that are no blocks as near to their wishes as their order lets them. */
function align(column, pulls, sides) {
  let from = 0;
  for (let index = 0; index <= column.length; index += 1) {
    if (index < column.length && !column[index].block) continue;
    if (index > from) alignBetween(column.slice(from, index), column[from - 1], column[index], pulls, sides);
    from = index + 1;
  }
}

/** The pool-adjacent-violators algorithm: the nearest tops, in squares, that keep the order. */
function alignBetween(items, wallAbove, wallBelow, pulls, sides) {
  const pools = [];
  let before = 0;
  const shifts = [];
  for (const [index, item] of items.entries()) {
    if (index > 0) before += items[index - 1].size + gap(items[index - 1], item);
    shifts.push(before);
    const { top, weight } = wish(item, pulls, sides);
    let pool = { value: top - before, weight, count: 1 };
    while (pools.length > 0 && pools.at(-1).value > pool.value) {
      const last = pools.pop();
      const weights = last.weight + pool.weight;
      pool = { value: (last.value * last.weight + pool.value * pool.weight) / weights, weight: weights, count: last.count + pool.count };
    }
    pools.push(pool);
  }
  const end = items.at(-1);
  const least = wallAbove ? wallAbove.top + wallAbove.size + gap(wallAbove, items[0]) : -Infinity;
  const most = wallBelow ? wallBelow.top - gap(end, wallBelow) - end.size - shifts.at(-1) : Infinity;
  let index = 0;
  for (const pool of pools) {
    for (let count = 0; count < pool.count; count += 1, index += 1) items[index].top = Math.max(least, Math.min(most, pool.value)) + shifts[index];
  }
}

/** Moves blocks within the room that those above and below leave them. */
function moveBlocks(items, above, below, pulls, sides, downwards) {
  const blocks = items.filter((item) => item.block).sort((one, other) => one.top - other.top);
  for (const block of downwards ? blocks.toReversed() : blocks) {
    const { top } = wish(block, pulls, sides);
    let [least, most] = [-Infinity, Infinity];
    for (const over of above.get(block)) least = Math.max(least, over.top + over.size + gap(over, block));
    for (const under of below.get(block)) most = Math.min(most, under.top - gap(block, under) - block.size);
    block.top = Math.max(least, Math.min(most, top));
  }
}
