// Attention over KV pages with an online softmax.
//
// Up to QUERIES queries that share a KV head go through the pages together: a tile, the heads of a group in a few
// consecutive rows of one sequence. A workgroup is (tile, KV head and chunk of its heads, span of pages). In each page
// lane j makes the scores of key j; then lanes share out (quad of the head, queries) and add up values.
//
//     mixed  [rows][MIXED_STRIDE]: the result, where the sequence is one span
//     parts  [rows][spans][HEADS][QUADS + 1] of vec4: else the sums of a span, then its top score and its total
//
// Where a layer's pages lie in several pieces, each is gone through on its own, from where the one before has left off.
//
// TOGETHER: heads of a tile; CHUNKS: how many of these a group has. SUBSETS · QUADS lanes add up values.

const QUERIES: u32 = 8u;
const QUADS: u32 = HEAD_DIM / 4u;
const GROUP: u32 = HEADS / KV_HEADS;
const TOGETHER: u32 = min(GROUP, QUERIES);
const CHUNKS: u32 = (GROUP + TOGETHER - 1u) / TOGETHER;
const EACH: u32 = QUERIES / SUBSETS;        // queries of a lane that adds up values
const MASKED: f32 = -1e30;

var<workgroup> queries: array<vec4<f32>, QUERIES * QUADS>;
var<workgroup> scores: array<f32, QUERIES * PAGE>;      // then the weights
var<workgroup> reduced: array<f32, LANES>;
var<workgroup> tops: array<f32, QUERIES>;
var<workgroup> totals: array<f32, QUERIES>;
var<workgroup> factors: array<f32, QUERIES>;            // by which a page's new top shrinks what was before it

struct Tile {
    first: u32,     // row
    rows: u32,
    g: u32,         // KV head
    chunk: u32,
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

// The scores of a page whose first cell is `cell`: lane j has key j.
fn score(tile: Tile, page: u32, cell: u32) {
    var sums: array<f32, QUERIES>;
    for (var d4 = 0u; d4 < QUADS; d4++) {
        let key = load_quad(page, tile.g, false, d4, lane);
        for (var i = 0u; i < QUERIES; i++) {
            sums[i] += dot(queries[i * QUADS + d4], key);
        }
    }
    for (var i = 0u; i < QUERIES; i++) {
        let seen = is_query(tile, i) && cell + lane < batch.row[row_of(tile, i)].visible;
        scores[i * PAGE + lane] = select(MASKED, sums[i], seen);
    }
    workgroupBarrier();
}

// Scores become weights relative to the top score so far; eight lanes for each query.
fn weigh() {
    let i = lane / 8u;
    let start = i * PAGE + lane % 8u * 8u;
    var top = MASKED;
    for (var j = start; j < start + 8u; j++) {
        top = max(top, scores[j]);
    }
    reduced[lane] = top;
    workgroupBarrier();
    top = tops[i];
    for (var j = 8u * i; j < 8u * i + 8u; j++) {
        top = max(top, reduced[j]);
    }
    var total = 0.0;
    for (var j = start; j < start + 8u; j++) {
        let weight = select(exp(scores[j] - top), 0.0, scores[j] == MASKED);
        scores[j] = weight;
        total += weight;
    }
    workgroupBarrier();
    reduced[lane] = total;
    workgroupBarrier();
    if (lane % 8u == 0u) {
        total = 0.0;
        for (var j = lane; j < lane + 8u; j++) {
            total += reduced[j];
        }
        factors[i] = exp(tops[i] - top);
        totals[i] = totals[i] * factors[i] + total;
        tops[i] = top;
    }
    workgroupBarrier();
}

// Where in `parts` query i has the sums of span s.
fn part_of(tile: Tile, s: u32, i: u32) -> u32 {
    return ((row_of(tile, i) * batch.spans + s) * HEADS + head_of(tile, i)) * (QUADS + 1u);
}

// The result of query i, or that of its span s as far as it goes.
fn put(tile: Tile, s: u32, i: u32, d4: u32, sum: vec4<f32>) {
    if (batch.spans == 1u && piece.goes_on == 0u) {
        let quad = sum / totals[i];
        for (var c = 0u; c < 4u; c++) {
            mixed[row_of(tile, i) * MIXED_STRIDE + head_of(tile, i) * HEAD_DIM + 4u * d4 + c] = quad[c];
        }
    } else {
        let at = part_of(tile, s, i);
        parts[at + d4] = sum;
        if (d4 == 0u) {
            parts[at + QUADS] = vec4<f32>(tops[i], totals[i], 0.0, 0.0);
        }
    }
}

fn tile_of(group: vec3<u32>) -> Tile {
    let packed = batch.row[group.x].tile;
    return Tile(packed & 0xFFFFu, packed >> 16u, group.y / CHUNKS, group.y % CHUNKS);
}

// Go through span s of the pages that the tile sees, with its scaled queries in workgroup memory.
fn attend(tile: Tile, s: u32) {
    let cells_seen = batch.row[tile.first + tile.rows - 1u].visible;
    let end = min((s + 1u) * batch.span_pages, (cells_seen + PAGE - 1u) / PAGE);
    let d4 = lane % QUADS;
    let subset = lane / QUADS;
    var sums: array<vec4<f32>, EACH>;
    if (lane < QUERIES) {
        var before = vec4<f32>(MASKED, 0.0, 0.0, 0.0);
        if (piece.continues == 1u && is_query(tile, lane)) {
            before = parts[part_of(tile, s, lane) + QUADS];
        }
        tops[lane] = before.x;
        totals[lane] = before.y;
    }
    if (piece.continues == 1u && subset < SUBSETS) {
        for (var e = 0u; e < EACH; e++) {
            if (is_query(tile, subset * EACH + e)) {
                sums[e] = parts[part_of(tile, s, subset * EACH + e) + d4];
            }
        }
    }
    workgroupBarrier();
    for (var p = s * batch.span_pages; p < end; p++) {
        let page = here(tables[batch.row[tile.first].table + p]);
        if (page >= piece.pages) {
            continue;
        }
        score(tile, page, p * PAGE);
        weigh();
        if (subset < SUBSETS) {
            for (var e = 0u; e < EACH; e++) {
                sums[e] *= factors[subset * EACH + e];
            }
            let tokens = min(PAGE, cells_seen - p * PAGE);
            for (var j = 0u; j < tokens; j++) {
                let value = load_quad(page, tile.g, true, d4, j);
                for (var e = 0u; e < EACH; e++) {
                    sums[e] = fma(vec4<f32>(scores[(subset * EACH + e) * PAGE + j]), value, sums[e]);
                }
            }
        }
        workgroupBarrier();
    }
    if (subset < SUBSETS) {
        for (var e = 0u; e < EACH; e++) {
            if (is_query(tile, subset * EACH + e)) {
                put(tile, s, subset * EACH + e, d4, sums[e]);
            }
        }
    }
}
