// StepArena: replays a StepArenaPlan inside one block. Each instruction must allocate what its
// (chunk, operation) did in the dry run, and in the same order; a difference throws InternalError.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/values/device.h"
#include "train/step/arena_plan.h"
#include "train/step/memory.h"

namespace ds {

class StepArena final : public StepMemory {
 public:
  // block: at least plan.bytes_total() bytes, aligned to kMemoryAlignment; the caller's.
  StepArena(StepArenaPlan plan, void* block, Device device = Device::cpu());

  void* allocate(size_t bytes, MemoryTag tag) override;
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override;
  void begin(const PipelineInstruction& instruction) override;
  void end() override;
  void release(int buffer) override;

 private:
  struct Work {
    std::vector<bool> kept;
    std::unique_ptr<ReplayArena> passing;
  };
  struct Room {
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    std::map<int, std::unique_ptr<ReplayArena>> kept{};  // by chunk
    ReplayArena* taken = nullptr;                        // by a micro-batch of one chunk
  };
  Room& room_for(const PipelineInstruction& instruction);

  const StepArenaPlan plan_;
  const Device device_;
  std::map<std::pair<int, PipelineOp>, Work> works_;  // by chunk
  std::vector<Room> rooms_;
  std::map<int, Room*> room_of_;  // by buffer, of micro-batches under way
  // These belong to the instruction under way.
  Work* work_ = nullptr;
  Room* room_ = nullptr;
  size_t next_ = 0;  // allocation
};

}  // namespace ds
