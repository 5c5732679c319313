// Places of what instructions allocate, by hand-worked records.
#include "train/step/arena_plan.h"

#include "core/status/error.h"
#include "core/values/index.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Op = PipelineOp;

// A micro-batch of `chunk` whose forward keeps 64 bytes beside 128 that pass, and whose backward
// needs 192 that pass; events from `at` on. `pause`: events of others between the two.
void add_micro_batch(StepRecord& record, int chunk, int64_t at, int64_t pause, size_t kept = 64) {
  const size_t first = record.spans.size();
  const int64_t back = at + 3 + pause;
  record.spans.push_back({.bytes = kept, .begin = at, .end = back + 1});
  record.spans.push_back({.bytes = 128, .begin = at + 1, .end = at + 2});
  record.spans.push_back({.bytes = 192, .begin = back, .end = back + 2});
  record.lives.push_back(
      {.chunk = chunk,
       .released = back + 3,
       .works = {
           {.op = Op::kForwardPass, .begin = at, .end = at + 3, .allocations = {first, first + 2}},
           {.op = Op::kBackwardPass,
            .begin = back,
            .end = back + 3,
            .allocations = {first + 2, first + 3}}}});
}

PipelineInstruction of(Op op, int buffer, int micro_batch, int chunk = 0) {
  return {.op = op, .buffer = buffer, .micro_batch = micro_batch, .chunk = chunk};
}

TEST_CASE("what passes is shared, what is kept has a room per micro-batch under way", "[train]") {
  StepRecord record;
  add_micro_batch(record, 0, 0, 5);
  const std::vector<PipelineInstruction> both_at_once{
      of(Op::kForwardPass, 0, 0), of(Op::kForwardPass, 1, 1), of(Op::kBackwardPass, 0, 0),
      of(Op::kBackwardPass, 1, 1)};
  const StepArenaPlan plan = plan_step_arena(record, both_at_once);
  const ChunkPlan& chunk = plan.chunks.at(0);
  CHECK(chunk.works.at(Op::kForwardPass).kept == std::vector<bool>{true, false});
  CHECK(chunk.works.at(Op::kBackwardPass).kept == std::vector<bool>{false});
  CHECK(chunk.kept.bytes_total == 64);
  CHECK(plan.passing_bytes == 192);
  CHECK(plan.room_bytes == std::vector<size_t>{64, 64});
  CHECK(plan.rooms == std::map<std::pair<int, int>, int>{{{0, 0}, 0}, {{0, 1}, 1}});
  CHECK(plan.bytes_total() == 320);
}

TEST_CASE("micro-batches in turn share one room, whatever their buffers", "[train]") {
  StepRecord record;
  add_micro_batch(record, 0, 0, 0);
  const std::vector<PipelineInstruction> in_turn{
      of(Op::kForwardPass, 0, 0), of(Op::kBackwardPass, 0, 0), of(Op::kForwardPass, 1, 1),
      of(Op::kBackwardPass, 1, 1)};
  const StepArenaPlan plan = plan_step_arena(record, in_turn);
  // Nobody to share with: everything is in the room, 192 over what the 128 were, beside the 64.
  CHECK(plan.passing_bytes == 0);
  CHECK(plan.chunks.at(0).works.at(Op::kForwardPass).kept == std::vector<bool>{true, true});
  CHECK(plan.room_bytes == std::vector<size_t>{256});
  CHECK(plan.rooms.at({0, 1}) == 0);
}

TEST_CASE("a micro-batch gets the free room that fits best", "[train]") {
  StepRecord record;
  add_micro_batch(record, 0, 0, 0, 640);
  add_micro_batch(record, 1, 100, 0, 64);
  const std::vector<PipelineInstruction> instructions{
      of(Op::kForwardPass, 0, 0, 0),  of(Op::kForwardPass, 1, 0, 1), of(Op::kBackwardPass, 1, 0, 1),
      of(Op::kBackwardPass, 0, 0, 0), of(Op::kForwardPass, 0, 1, 1), of(Op::kForwardPass, 1, 1, 0),
      of(Op::kBackwardPass, 1, 1, 0), of(Op::kBackwardPass, 0, 1, 1)};
  const StepArenaPlan plan = plan_step_arena(record, instructions);
  CHECK(plan.room_bytes == std::vector<size_t>{640, 64});
  CHECK(plan.rooms.at({1, 1}) == 1);  // both are free
  CHECK(plan.rooms.at({0, 1}) == 0);
}

TEST_CASE("what one micro-batch needs longer, all have longer", "[train]") {
  StepRecord record;
  add_micro_batch(record, 0, 0, 0);
  add_micro_batch(record, 0, 100, 0);
  record.spans[4].end = 104;  // of the second forward's, in the middle of its backward
  const std::vector<PipelineInstruction> both_at_once{
      of(Op::kForwardPass, 0, 0), of(Op::kForwardPass, 1, 1), of(Op::kBackwardPass, 0, 0),
      of(Op::kBackwardPass, 1, 1)};
  const StepArenaPlan plan = plan_step_arena(record, both_at_once);
  CHECK(plan.chunks.at(0).works.at(Op::kForwardPass).kept == std::vector<bool>{true, true});
  CHECK(plan.room_bytes == std::vector<size_t>{192, 192});
}

TEST_CASE("micro-batches that differ, or leave something, are not planned", "[train]") {
  const std::vector<PipelineInstruction> instructions{of(Op::kForwardPass, 0, 0),
                                                      of(Op::kBackwardPass, 0, 0)};
  StepRecord record;
  add_micro_batch(record, 0, 0, 0);
  SECTION("other sizes") {
    add_micro_batch(record, 0, 100, 0, 65);
    CHECK_THROWS_WITH(plan_step_arena(record, instructions),
                      Catch::Contains("allocate differently for ForwardPass of chunk 0"));
  }
  SECTION("other instructions") {
    add_micro_batch(record, 0, 100, 0);
    record.lives.back().works.pop_back();
    CHECK_THROWS_WITH(plan_step_arena(record, instructions), Catch::Contains("2 and 1"));
  }
  SECTION("something stays") {
    record.spans[1].end = 1000;
    CHECK_THROWS_WITH(plan_step_arena(record, instructions),
                      Catch::Contains("ForwardPass allocates 128 bytes that outlive"));
  }
  SECTION("never done") {
    record.lives.back().released = -1;
    CHECK_THROWS_WITH(plan_step_arena(record, instructions), Catch::Contains("not done"));
  }
  SECTION("an instruction twice") {
    record.lives.back().works.push_back(record.lives.back().works.back());
    CHECK_THROWS_WITH(plan_step_arena(record, instructions),
                      Catch::Contains("BackwardPass comes twice"));
  }
}

}  // namespace
}  // namespace ds
