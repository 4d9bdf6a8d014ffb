// Attention over KV pages with an online softmax.
//
// A tile is up to QUERIES (4 or 8) queries that share a KV head: the heads of a group in a few consecutive rows of one
// sequence. A workgroup is (tile, KV head and chunk of its heads, span of pages). For each page lane j computes the
// scores of key j; then each lane adds up values for (vec4 of the head, some tokens). Four keys or values are loaded
// before the first is used, as memory latency takes most of the time.
//
//     mixed  [rows][MIXED_STRIDE]: the result, where the sequence is one span
//     partials [rows][spans][HEADS][VEC4S + 1] of vec4: else the sums of a span, then its top score and its total
//
// If a layer's pages are in several buffers, a dispatch for each continues the sums of the one before.
//
// SOFT_CAP: scores are SOFT_CAP · tanh(score / SOFT_CAP); 0: they are not capped.
// SINKS: the results are always partial, since merge.wgsl adds the sinks.
//
// TOGETHER: heads of a tile; CHUNKS: how many of these a group has. SUBSETS · VEC4S lanes add up values; SUBSETS is a
// power of two up to 8.

const VEC4S: u32 = HEAD_DIM / 4u;
const GROUP: u32 = HEADS / KV_HEADS;
const TOGETHER: u32 = min(GROUP, QUERIES);
const CHUNKS: u32 = (GROUP + TOGETHER - 1u) / TOGETHER;
const SHARE: u32 = LANES / QUERIES;         // lanes for the softmax of a query
const MASKED: f32 = -1e30;

var<workgroup> queries: array<vec4<f32>, QUERIES * VEC4S>;      // at the end sums for another lane
var<workgroup> firsts: array<u32, QUERIES>;                     // first cell that a query sees
var<workgroup> visible: array<u32, QUERIES>;                    // end of the cells that it sees; 0: no query
var<workgroup> scores: array<f32, PAGE * QUERIES>;              // [key][query]; then the weights
var<workgroup> reduced: array<f32, LANES>;
var<workgroup> tops: array<f32, QUERIES>;
var<workgroup> totals: array<f32, QUERIES>;
var<workgroup> factors: array<f32, QUERIES>;                    // of the sums so far, as the maximum grows

struct Tile {
    first: u32,     // row
    rows: u32,
    g: u32,         // KV head
    chunk: u32,
}

// A vec4 of the head for each of eight queries.
struct Sums {
    first: mat4x4<f32>,
    last: mat4x4<f32>,
}

// The row of query i of the tile, its head, and whether there is one.
fn row_of(tile: Tile, i: u32) -> u32 {
    return tile.first + i / TOGETHER;
}

fn head_of(tile: Tile, i: u32) -> u32 {
    return tile.g * GROUP + tile.chunk * TOGETHER + i % TOGETHER;
}

fn is_query(tile: Tile, i: u32) -> bool {
    return i < tile.rows * TOGETHER && tile.chunk * TOGETHER + i % TOGETHER < GROUP;
}

// The products of a vec4 of a key with those of four queries from i on.
fn dot_vec4(i: u32, d4: u32, key: vec4<f32>) -> vec4<f32> {
    let at = i * VEC4S + d4;
    let a = dot(queries[at], key);
    let b = dot(queries[at + VEC4S], key);
    let c = dot(queries[at + 2u * VEC4S], key);
    let d = dot(queries[at + 3u * VEC4S], key);
    return vec4<f32>(a, b, c, d);
}

fn dot_vec4s(i: u32, d4: u32, keys: mat4x4<f32>) -> vec4<f32> {
    let half = dot_vec4(i, d4, keys[0]) + dot_vec4(i, d4 + 1u, keys[1]);
    return half + dot_vec4(i, d4 + 2u, keys[2]) + dot_vec4(i, d4 + 3u, keys[3]);
}

fn put_score(i: u32, cell: u32, made: f32) {
    var score = made;
    if (SOFT_CAP > 0.0) {
        score = SOFT_CAP * tanh_of(score / SOFT_CAP);
    }
    let own = cell + lane;
    scores[lane * QUERIES + i] = select(MASKED, score, firsts[i] <= own && own < visible[i]);
}

fn put_scores(i: u32, cell: u32, made: vec4<f32>) {
    put_score(i, cell, made.x);
    put_score(i + 1u, cell, made.y);
    put_score(i + 2u, cell, made.z);
    put_score(i + 3u, cell, made.w);
}

// The scores of key `lane` of a page whose first cell is `cell`.
fn score_key(tile: Tile, page: u32, cell: u32) {
    var first = vec4<f32>();
    var last = vec4<f32>();
    var d4 = 0u;
    for (; d4 + 4u <= VEC4S; d4 += 4u) {
        let keys = mat4x4<f32>(
            load_vec4(page, tile.g, false, d4, lane),
            load_vec4(page, tile.g, false, d4 + 1u, lane),
            load_vec4(page, tile.g, false, d4 + 2u, lane),
            load_vec4(page, tile.g, false, d4 + 3u, lane),
        );
        first += dot_vec4s(0u, d4, keys);
        if (QUERIES == 8u) {
            last += dot_vec4s(4u, d4, keys);
        }
    }
    for (; d4 < VEC4S; d4++) {
        let key = load_vec4(page, tile.g, false, d4, lane);
        first += dot_vec4(0u, d4, key);
        if (QUERIES == 8u) {
            last += dot_vec4(4u, d4, key);
        }
    }
    put_scores(0u, cell, first);
    if (QUERIES == 8u) {
        put_scores(4u, cell, last);
    }
}

// The scores of a page: lane j has key j; lanes beyond the page have none.
fn score(tile: Tile, page: u32, cell: u32) {
    if (lane < PAGE) {
        score_key(tile, page, cell);
    }
    workgroupBarrier();
}

// Scores become weights relative to the maximum so far; SHARE lanes for each query.
fn weigh() {
    let i = lane / SHARE;
    let start = i * SHARE;
    var top = MASKED;
    for (var j = lane - start; j < PAGE; j += SHARE) {
        top = max(top, scores[j * QUERIES + i]);
    }
    reduced[lane] = top;
    workgroupBarrier();
    top = tops[i];
    for (var j = start; j < start + SHARE; j++) {
        top = max(top, reduced[j]);
    }
    var total = 0.0;
    for (var j = lane - start; j < PAGE; j += SHARE) {
        let made = scores[j * QUERIES + i];
        let weight = select(exp(made - top), 0.0, made == MASKED);
        scores[j * QUERIES + i] = weight;
        total += weight;
    }
    workgroupBarrier();
    reduced[lane] = total;
    workgroupBarrier();
    if (lane == start) {
        total = 0.0;
        for (var j = start; j < start + SHARE; j++) {
            total += reduced[j];
        }
        let factor = exp(tops[i] - top);
        factors[i] = factor;
        totals[i] = totals[i] * factor + total;
        tops[i] = top;
    }
    workgroupBarrier();
}

// A vec4 of the value of token j times the weights of four queries from i on.
fn weighted(i: u32, j: u32, value: vec4<f32>) -> mat4x4<f32> {
    let at = j * QUERIES + i;
    return mat4x4<f32>(scores[at] * value, scores[at + 1u] * value, scores[at + 2u] * value, scores[at + 3u] * value);
}

fn shrunk(i: u32, sums: mat4x4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        factors[i] * sums[0],
        factors[i + 1u] * sums[1],
        factors[i + 2u] * sums[2],
        factors[i + 3u] * sums[3],
    );
}

// Add the values of each SUBSETS-th token of a page from j on; tokens after the last have weight 0.
fn add_values(sums: Sums, tile: Tile, page: u32, d4: u32, from_token: u32, tokens: u32) -> Sums {
    var made = sums;
    for (var j = from_token; j < tokens; j += 4u * SUBSETS) {
        let j1 = j + SUBSETS;
        let j2 = j1 + SUBSETS;
        let j3 = j2 + SUBSETS;
        let a = load_vec4(page, tile.g, true, d4, j);
        let b = load_vec4(page, tile.g, true, d4, min(j1, tokens - 1u));
        let c = load_vec4(page, tile.g, true, d4, min(j2, tokens - 1u));
        let d = load_vec4(page, tile.g, true, d4, min(j3, tokens - 1u));
        made.first += weighted(0u, j, a) + weighted(0u, j1, b) + weighted(0u, j2, c) + weighted(0u, j3, d);
        if (QUERIES == 8u) {
            made.last += weighted(4u, j, a) + weighted(4u, j1, b) + weighted(4u, j2, c) + weighted(4u, j3, d);
        }
    }
    return made;
}

// The index in `partials` of the sums of span s for query i.
fn partial_at(tile: Tile, s: u32, i: u32) -> u32 {
    return ((row_of(tile, i) * batch.spans + s) * HEADS + head_of(tile, i)) * (VEC4S + 1u);
}

// The sums of query i from an earlier buffer.
fn taken(tile: Tile, s: u32, i: u32, d4: u32) -> vec4<f32> {
    if (is_query(tile, i)) {
        return partials[partial_at(tile, s, i) + d4];
    }
    return vec4<f32>();
}

fn take_four(tile: Tile, s: u32, i: u32, d4: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        taken(tile, s, i, d4),
        taken(tile, s, i + 1u, d4),
        taken(tile, s, i + 2u, d4),
        taken(tile, s, i + 3u, d4),
    );
}

// Store the result of query i, or the sums of its span s.
fn put(tile: Tile, s: u32, i: u32, d4: u32, sum: vec4<f32>) {
    if (!is_query(tile, i)) {
        return;
    }
    if (batch.spans == 1u && kv_range.has_next == 0u && !SINKS) {
        let v = sum / totals[i];
        let at = row_of(tile, i) * MIXED_STRIDE + head_of(tile, i) * HEAD_DIM + 4u * d4;
        mixed[at] = v.x;
        mixed[at + 1u] = v.y;
        mixed[at + 2u] = v.z;
        mixed[at + 3u] = v.w;
    } else {
        let at = partial_at(tile, s, i);
        partials[at + d4] = sum;
        if (d4 == 0u) {
            partials[at + VEC4S] = vec4<f32>(tops[i], totals[i], 0.0, 0.0);
        }
    }
}

fn put_four(tile: Tile, s: u32, i: u32, d4: u32, sums: mat4x4<f32>) {
    put(tile, s, i, d4, sums[0]);
    put(tile, s, i + 1u, d4, sums[1]);
    put(tile, s, i + 2u, d4, sums[2]);
    put(tile, s, i + 3u, d4, sums[3]);
}

fn hand_over(i: u32, d4: u32, sums: mat4x4<f32>) {
    let at = i * VEC4S + d4;
    queries[at] = sums[0];
    queries[at + VEC4S] = sums[1];
    queries[at + 2u * VEC4S] = sums[2];
    queries[at + 3u * VEC4S] = sums[3];
}

fn handed(i: u32, d4: u32) -> mat4x4<f32> {
    let at = i * VEC4S + d4;
    return mat4x4<f32>(queries[at], queries[at + VEC4S], queries[at + 2u * VEC4S], queries[at + 3u * VEC4S]);
}

fn tile_of(group: vec3<u32>) -> Tile {
    let packed = batch.row[group.x].tile;
    return Tile(packed & 0xFFFFu, packed >> 16u, group.y / CHUNKS, group.y % CHUNKS);
}

// The first page of span s of a tile.
fn span_start(tile: Tile, s: u32) -> u32 {
    var cell = batch.row[tile.first].first;
    for (var t = 1u; t < tile.rows; t++) {
        cell = min(cell, batch.row[tile.first + t].first);
    }
    return cell / PAGE + s * batch.span_pages;
}

// The end of the cells that the rows of a tile see.
fn seen_end(tile: Tile) -> u32 {
    var cells = batch.row[tile.first].visible;
    for (var t = 1u; t < tile.rows; t++) {
        cells = max(cells, batch.row[tile.first + t].visible);
    }
    return cells;
}

// Attention of a tile over span s of its pages, with the scaled queries in workgroup memory.
fn attend(tile: Tile, s: u32) {
    let cells_seen = seen_end(tile);
    let start = span_start(tile, s);
    let end = min(start + batch.span_pages, (cells_seen + PAGE - 1u) / PAGE);
    let d4 = lane % VEC4S;
    let subset = lane / VEC4S;
    var sums: Sums;
    if (lane < QUERIES) {
        var before = vec4<f32>(MASKED, 0.0, 0.0, 0.0);
        visible[lane] = 0u;
        if (is_query(tile, lane)) {
            firsts[lane] = batch.row[row_of(tile, lane)].first;
            visible[lane] = batch.row[row_of(tile, lane)].visible;
            if (kv_range.has_previous == 1u) {
                before = partials[partial_at(tile, s, lane) + VEC4S];
            }
        }
        tops[lane] = before.x;
        totals[lane] = before.y;
    }
    if (kv_range.has_previous == 1u && subset == 0u) {
        sums.first = take_four(tile, s, 0u, d4);
        if (QUERIES == 8u) {
            sums.last = take_four(tile, s, 4u, d4);
        }
    }
    workgroupBarrier();
    for (var p = start; p < end; p++) {
        let page = local_page(tables[batch.row[tile.first].table + p]);
        if (page >= kv_range.pages) {
            continue;
        }
        score(tile, page, p * PAGE);
        weigh();
        if (subset < SUBSETS) {
            sums.first = shrunk(0u, sums.first);
            if (QUERIES == 8u) {
                sums.last = shrunk(4u, sums.last);
            }
            sums = add_values(sums, tile, page, d4, subset, min(PAGE, cells_seen - p * PAGE));
        }
        workgroupBarrier();
    }
    for (var other = 1u; other < SUBSETS; other++) {
        if (subset == other) {
            hand_over(0u, d4, sums.first);
            if (QUERIES == 8u) {
                hand_over(4u, d4, sums.last);
            }
        }
        workgroupBarrier();
        if (subset == 0u) {
            sums.first += handed(0u, d4);
            if (QUERIES == 8u) {
                sums.last += handed(4u, d4);
            }
        }
        workgroupBarrier();
    }
    if (subset == 0u) {
        put_four(tile, s, 0u, d4, sums.first);
        if (QUERIES == 8u) {
            put_four(tile, s, 4u, d4, sums.last);
        }
    }
}
