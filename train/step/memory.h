// StepMemory: where the instructions of a step allocate. A step runner says which instruction is
// under way and which micro-batch is done, so that allocations can be told apart by what they are
// made for: each (chunk, operation) allocates the same in the same order for every micro-batch. The
// dry run records that (recorder.h) and a run follows what was planned from it (arena.h).
#pragma once

#include "core/memory/resource.h"
#include "model/parallel/pipeline_schedule.h"

namespace ds {

class StepMemory : public MemoryResource {
 public:
  // What is allocated until end() is for this instruction. The first one in a buffer after
  // release() brings another micro-batch.
  virtual void begin(const PipelineInstruction& instruction) = 0;
  virtual void end() = 0;
  // The micro-batch in this buffer is done, and nothing that was allocated for it is left.
  virtual void release(int buffer) = 0;
};

}  // namespace ds
