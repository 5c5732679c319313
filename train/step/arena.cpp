#include "train/step/arena.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

StepArena::StepArena(StepArenaPlan plan, void* block, Device device)
    : plan_(std::move(plan)), device_(device) {
  auto* const passing = static_cast<std::byte*>(block);
  for (int chunk = 0; chunk < narrow<int>(plan_.chunks.size()); ++chunk) {
    for (const auto& [op, work] : nth(plan_.chunks, chunk).works) {
      works_[{chunk, op}] = {
          .kept = work.kept,
          .passing = std::make_unique<ReplayArena>(work.passing, passing, device)};
    }
  }
  std::byte* at = passing + plan_.passing_bytes;
  for (const size_t bytes : plan_.room_bytes) {
    rooms_.push_back({.begin = at, .end = at + bytes});
    at += bytes;
  }
}

StepArena::Room& StepArena::room_for(const PipelineInstruction& instruction) {
  if (const auto found = room_of_.find(instruction.buffer); found != room_of_.end()) {
    return *found->second;
  }
  const auto planned = plan_.rooms.find({instruction.chunk, instruction.micro_batch});
  DS_CHECK(planned != plan_.rooms.end(), "step arena: micro-batch {} of chunk {} was not planned",
           instruction.micro_batch, instruction.chunk);
  Room& room = nth(rooms_, planned->second);
  DS_CHECK(room.taken == nullptr, "step arena: micro-batch {} of chunk {} finds its room taken",
           instruction.micro_batch, instruction.chunk);
  std::unique_ptr<ReplayArena>& kept = room.kept[instruction.chunk];
  if (!kept) {
    kept = std::make_unique<ReplayArena>(nth(plan_.chunks, instruction.chunk).kept, room.begin,
                                         device_);
  }
  room.taken = kept.get();
  room_of_[instruction.buffer] = &room;
  return room;
}

void StepArena::begin(const PipelineInstruction& instruction) {
  DS_CHECK(work_ == nullptr, "step arena: {} begins inside another instruction",
           to_string(instruction.op));
  const auto found = works_.find({instruction.chunk, instruction.op});
  DS_CHECK(found != works_.end(), "step arena: {} of chunk {} was not in the dry run",
           to_string(instruction.op), instruction.chunk);
  room_ = &room_for(instruction);
  work_ = &found->second;
  next_ = 0;
}

void StepArena::end() {
  DS_CHECK(next_ == work_->kept.size(), "step arena: {} of the dry run's {} allocations were made",
           next_, work_->kept.size());
  work_->passing->rewind();
  work_ = nullptr;
}

void StepArena::release(int buffer) {
  const auto found = room_of_.find(buffer);
  DS_CHECK(found != room_of_.end(), "step arena: buffer {} holds no micro-batch", buffer);
  found->second->taken->rewind();
  found->second->taken = nullptr;
  room_of_.erase(found);
}

void* StepArena::allocate(size_t bytes, MemoryTag tag) {
  DS_CHECK(work_ != nullptr, "step arena: {} bytes for {} outside of an instruction", bytes,
           name_of(tag));
  DS_CHECK(next_ < work_->kept.size(), "step arena: {} bytes for {} are one allocation too many",
           bytes, name_of(tag));
  return (work_->kept[next_++] ? *room_->taken : *work_->passing).allocate(bytes, tag);
}

// A micro-batch's memory may be given back while another's instruction runs.
void StepArena::deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept {
  const auto room =
      std::ranges::upper_bound(rooms_, static_cast<std::byte*>(pointer), {}, &Room::end);
  const bool is_kept = room != rooms_.end() && room->begin <= pointer;
  (is_kept ? *room->taken : *work_->passing).deallocate(pointer, bytes, tag);
}

}  // namespace ds
