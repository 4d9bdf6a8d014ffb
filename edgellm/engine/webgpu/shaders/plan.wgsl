// The slots of a batch: the choices of all rows, sorted by expert and then by row. One workgroup.
//
//     EXPERTS, USED     experts of a layer, and of a row
//     CHOICES_AT        behind the tiles of the most rows
//
//     chosen [rows · USED]: the expert of each choice
//     plan   [tiles][3]: an expert, its first slot of the tile, and the end of its slots there; tiles of all experts, and
//            zeros as far as a dispatch may reach; from CHOICES_AT on [slots]: the choice of each slot
//     slots  [rows · USED]: the slot of each choice

@group(0) @binding(0) var<storage, read> batch: Batch;
@group(0) @binding(1) var<storage, read> chosen: array<u32>;
@group(0) @binding(2) var<storage, read_write> plan: array<u32>;
@group(0) @binding(3) var<storage, read_write> slots: array<u32>;

const SIDE: u32 = 64u;

var<workgroup> first_slot: array<u32, EXPERTS + 1u>;
var<workgroup> first_tile: array<u32, EXPERTS + 1u>;

fn kernel(group: vec3<u32>) {
    let choices = batch.rows * USED;
    for (var expert = lane; expert < EXPERTS; expert += LANES) {
        var count = 0u;
        for (var c = 0u; c < choices; c++) {
            count += u32(chosen[c] == expert);
        }
        first_slot[expert] = count;
    }
    workgroupBarrier();
    if (lane == 0u) {
        var slot = 0u;
        var tile = 0u;
        for (var expert = 0u; expert < EXPERTS; expert++) {
            let count = first_slot[expert];
            first_slot[expert] = slot;
            first_tile[expert] = tile;
            slot += count;
            tile += (count + SIDE - 1u) / SIDE;
        }
        first_slot[EXPERTS] = slot;
        first_tile[EXPERTS] = tile;
    }
    workgroupBarrier();
    for (var expert = lane; expert < EXPERTS; expert += LANES) {
        place_choices(expert, choices);
        let end = first_slot[expert + 1u];
        var tile = first_tile[expert];
        for (var slot = first_slot[expert]; slot < end; slot += SIDE) {
            put_tile(tile, expert, slot, min(slot + SIDE, end));
            tile++;
        }
    }
    for (var tile = first_tile[EXPERTS] + lane; tile < choices / SIDE + min(EXPERTS, choices); tile += LANES) {
        put_tile(tile, 0u, 0u, 0u);
    }
}

fn place_choices(expert: u32, choices: u32) {
    var slot = first_slot[expert];
    for (var c = 0u; c < choices; c++) {
        if (chosen[c] == expert) {
            plan[CHOICES_AT + slot] = c;
            slots[c] = slot;
            slot++;
        }
    }
}

fn put_tile(tile: u32, expert: u32, first: u32, end: u32) {
    plan[3u * tile] = expert;
    plan[3u * tile + 1u] = first;
    plan[3u * tile + 2u] = end;
}
