// The plan says where everything lies that the instructions of a step allocate (pure). What an
// instruction allocates and frees again has its place in a part of the block that all of them
// share, because they take turns; what a micro-batch keeps from one instruction to another lies in
// a room that is its own from its first instruction to its last. So an address depends on (room,
// chunk, operation) alone, however many micro-batches a step has, and what was recorded of one
// holds for all. If one room is enough, everything lies in it: nothing is shared, and what is freed
// midway makes place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/memory/replay_arena.h"
#include "model/parallel/pipeline_schedule.h"

namespace ds {

// What was recorded. Events count allocations and frees, as in AllocationSpan.
struct StepRecord {
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct Work {  // an instruction
    PipelineOp op{};
    int64_t begin = 0, end = 0;  // events
    Range allocations{};         // of spans
  };
  // A micro-batch in a buffer, from its first instruction until the buffer was released.
  struct Life {
    int chunk = 0;
    int64_t released = -1;  // event; below 0: it was not
    std::vector<Work> works{};
  };
  std::vector<Life> lives;
  std::vector<AllocationSpan> spans;
};

struct WorkPlan {
  std::vector<bool>
      kept;  // by allocation, in order: planned in the chunk's `kept`, or in `passing`
  ArenaPlan passing;
};

struct ChunkPlan {
  ArenaPlan kept;  // all of one micro-batch, in order of allocation
  std::map<PipelineOp, WorkPlan> works;
};

struct StepArenaPlan {
  std::vector<ChunkPlan> chunks;
  std::map<std::pair<int, int>, int> rooms;  // (chunk, micro-batch) -> room
  // These are parts of one block: what passes comes first, then the rooms in turn.
  size_t passing_bytes = 0;
  std::vector<size_t> room_bytes;
  size_t bytes_total() const;
};

// For these instructions, whose every (chunk, operation) is in the record. Throws InternalError
// where micro-batches of one chunk allocate differently, or something outlives its micro-batch.
StepArenaPlan plan_step_arena(const StepRecord& record,
                              std::span<const PipelineInstruction> instructions);

}  // namespace ds
