// StepRecorder: allocates upstream and keeps, of every instruction of a step, what it allocated and
// when that went.
#pragma once

#include <map>

#include "core/memory/replay_arena.h"
#include "train/step/arena_plan.h"
#include "train/step/memory.h"

namespace ds {

class StepRecorder final : public StepMemory {
 public:
  explicit StepRecorder(MemoryResource& upstream) : recording_(upstream) {}

  void* allocate(size_t bytes, MemoryTag tag) override { return recording_.allocate(bytes, tag); }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    recording_.deallocate(pointer, bytes, tag);
  }
  void begin(const PipelineInstruction& instruction) override;
  void end() override;
  void release(int buffer) override;

  StepRecord record() const;

 private:
  RecordingMemory recording_;
  std::vector<StepRecord::Life> lives_;
  std::map<int, size_t> life_of_;  // by buffer, of micro-batches under way
  StepRecord::Work* work_ = nullptr;
};

}  // namespace ds
