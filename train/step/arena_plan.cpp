#include "train/step/arena_plan.h"

#include <algorithm>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// Time as one micro-batch sees it: the events during its own instructions, one after another. What
// happens between two of them happens at the end of the first.
class LifeTime {
 public:
  explicit LifeTime(const StepRecord::Life& life) : life_(life) {}

  int64_t at(int64_t event) const {
    int64_t before = 0;
    for (size_t i = 0; i < life_.works.size(); ++i) {
      const StepRecord::Work& work = life_.works[i];
      const bool is_last = i + 1 == life_.works.size();
      if (event <= work.end || is_last || event < life_.works[i + 1].begin) {
        return before + std::min(event, work.end) - work.begin;
      }
      before += work.end - work.begin;
    }
    return before;
  }

 private:
  const StepRecord::Life& life_;
};

// What micro-batches of one chunk have in common: the same allocations, alive for as long as in the
// micro-batch that needs them longest.
struct CommonWork {
  PipelineOp op{};
  std::vector<AllocationSpan> spans{};  // times of the life
  std::vector<bool> kept{};
};
using CommonLife = std::vector<CommonWork>;

CommonLife life_of(const StepRecord& record, const StepRecord::Life& life, bool keeps_all) {
  DS_CHECK(life.released >= 0, "step plan: a micro-batch of chunk {} is not done at the end",
           life.chunk);
  const LifeTime time(life);
  CommonLife common;
  for (const StepRecord::Work& work : life.works) {
    CommonWork& next = common.emplace_back();
    next.op = work.op;
    for (size_t i = work.allocations.begin; i < work.allocations.end; ++i) {
      const AllocationSpan& span = record.spans[i];
      DS_CHECK(span.end < life.released, "step plan: {} allocates {} bytes that outlive their {}",
               to_string(work.op), span.bytes, "micro-batch");
      next.kept.push_back(keeps_all || span.end >= work.end);
      next.spans.push_back({.bytes = span.bytes,
                            .tag = span.tag,
                            .begin = time.at(span.begin),
                            .end = time.at(span.end)});
    }
  }
  return common;
}

void widen(CommonWork& common, const CommonWork& other, int chunk) {
  const auto same = [](const AllocationSpan& a, const AllocationSpan& b) {
    return a.bytes == b.bytes && a.tag == b.tag;
  };
  DS_CHECK(common.op == other.op && std::ranges::equal(common.spans, other.spans, same),
           "step plan: two micro-batches allocate differently for {} of chunk {}",
           to_string(common.op), chunk);
  for (size_t i = 0; i < common.spans.size(); ++i) {
    common.spans[i].end = std::max(common.spans[i].end, other.spans[i].end);
    common.kept[i] = common.kept[i] || other.kept[i];
  }
}

ChunkPlan plan_of(const CommonLife& life) {
  ChunkPlan plan;
  std::vector<AllocationSpan> kept;
  for (const CommonWork& work : life) {
    std::vector<AllocationSpan> passing;
    for (size_t i = 0; i < work.spans.size(); ++i) {
      (work.kept[i] ? kept : passing).push_back(work.spans[i]);
    }
    const auto [at, is_new] = plan.works.try_emplace(
        work.op, WorkPlan{.kept = work.kept, .passing = plan_arena(std::move(passing))});
    DS_CHECK(is_new, "step plan: {} comes twice for one micro-batch", to_string(work.op));
  }
  plan.kept = plan_arena(std::move(kept));
  return plan;
}

// From a micro-batch's first instruction to its last, as places in the list of instructions. Where
// the next chunk is on this rank too and takes what this one gave, that is the last one.
struct Stay {
  int chunk = 0;
  int micro_batch = 0;
  size_t begin = 0, end = 0;
  bool receives = false;  // from another rank
};

std::vector<Stay> stays_of(std::span<const PipelineInstruction> instructions) {
  std::vector<Stay> stays;  // by begin
  std::map<std::pair<int, int>, size_t> stay_of;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const PipelineInstruction& instruction = instructions[i];
    if (instruction.buffer < 0) continue;
    const auto [found, is_new] =
        stay_of.try_emplace({instruction.chunk, instruction.micro_batch}, stays.size());
    if (is_new) {
      stays.push_back(
          {.chunk = instruction.chunk, .micro_batch = instruction.micro_batch, .begin = i});
    }
    Stay& stay = stays[found->second];
    stay.end = i;
    stay.receives = stay.receives || instruction.op == PipelineOp::kRecvActivation;
    if (instruction.op != PipelineOp::kForwardPass || stay.receives) continue;
    const auto before = stay_of.find({instruction.chunk - 1, instruction.micro_batch});
    if (before != stay_of.end()) stays[before->second].end = i;
  }
  return stays;
}

bool one_at_a_time(const std::vector<Stay>& stays) {
  return std::ranges::adjacent_find(
             stays, [](const Stay& a, const Stay& b) { return b.begin <= a.end; }) == stays.end();
}

// Each gets the free room that fits best, or the largest free one made larger, or a new one.
void assign_rooms(const std::vector<Stay>& stays, StepArenaPlan& plan) {
  std::vector<size_t> free_after;  // by room
  for (const Stay& stay : stays) {
    const size_t bytes = nth(plan.chunks, stay.chunk).kept.bytes_total;
    size_t best = plan.room_bytes.size();
    for (size_t room = 0; room < plan.room_bytes.size(); ++room) {
      if (free_after[room] >= stay.begin) continue;
      const size_t size = plan.room_bytes[room];
      const size_t so_far = best < plan.room_bytes.size() ? plan.room_bytes[best] : 0;
      const bool is_better = so_far < bytes ? size > so_far : size >= bytes && size < so_far;
      if (is_better || best == plan.room_bytes.size()) best = room;
    }
    if (best == plan.room_bytes.size()) {
      plan.room_bytes.push_back(0);
      free_after.push_back(0);
    }
    plan.room_bytes[best] = std::max(plan.room_bytes[best], bytes);
    free_after[best] = stay.end;
    plan.rooms[{stay.chunk, stay.micro_batch}] = narrow<int>(best);
  }
}

// What all micro-batches of each chunk have in common.
std::map<int, CommonLife> common_lives(const StepRecord& record, bool keeps_all) {
  std::map<int, CommonLife> chunks;
  for (const StepRecord::Life& life : record.lives) {
    CommonLife one = life_of(record, life, keeps_all);
    const auto [found, is_new] = chunks.try_emplace(life.chunk, one);
    if (is_new) continue;
    DS_CHECK(found->second.size() == one.size(),
             "step plan: micro-batches of chunk {} have {} and {} instructions", life.chunk,
             found->second.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) widen(found->second[i], one[i], life.chunk);
  }
  return chunks;
}

}  // namespace

StepArenaPlan plan_step_arena(const StepRecord& record,
                              std::span<const PipelineInstruction> instructions) {
  StepArenaPlan plan;
  const std::vector<Stay> stays = stays_of(instructions);
  for (const auto& [chunk, life] : common_lives(record, one_at_a_time(stays))) {
    plan.chunks.resize(std::max(plan.chunks.size(), to_size(chunk) + 1));
    ChunkPlan& one = nth(plan.chunks, chunk) = plan_of(life);
    for (const auto& [op, work] : one.works) {
      plan.passing_bytes = std::max(plan.passing_bytes, work.passing.bytes_total);
    }
  }
  assign_rooms(stays, plan);
  return plan;
}

size_t StepArenaPlan::bytes_total() const {
  return std::accumulate(room_bytes.begin(), room_bytes.end(), passing_bytes);
}

}  // namespace ds
