// Error feedback of quantized sums (LoCo): the sums are those of its definition, round by round, in
// the same bytes; they come nearer to the exact ones than without; errors begin anew when they
// should, follow the loss scale, and are lost with numbers that are not finite.
#include <limits>
#include <mutex>
#include <numeric>

#include "kernels/elementwise/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/zero/device_rank.h"
#include "tests/zero/quantized_reference.h"
#include "zero/reduce/quantized_reduce.h"

namespace ds {
namespace {

using namespace testing;
using Floats = std::vector<float>;

constexpr int64_t kSlice = 4320;  // three runs of 1440
constexpr float kBeta = 0.75F;

// The definition: h = g + e is sent as Q(h), and e = beta e + (1 - beta)(h - Q(h)), kept in 8 bits.
class Reference {
 public:
  Reference(Hops hops, int64_t slice) : hops_(hops), slice_(slice) { begin_anew(); }

  void begin_anew() {
    const Floats none(to_size(slice_ * hops_.ranks()), 0.0F);
    near_.assign(to_size(hops_.ranks()), none);
    far_.assign(to_size(hops_.far), none);
  }
  void multiply(float factor) {
    for (auto* all : {&near_, &far_}) {
      for (Floats& errors : *all) {
        for (float& error : errors) error *= factor;
      }
    }
  }
  Floats sum(const std::vector<Floats>& of_ranks) {
    std::vector<Floats> far;
    for (int place = 0; place < hops_.far; ++place) {
      std::vector<Floats> near;
      for (int i = 0; i < hops_.near; ++i) {
        const int rank = place * hops_.near + i;
        near.push_back(sent(nth(of_ranks, rank), nth(near_, rank)));
      }
      far.push_back(sum_of(near));
      if (hops_.near > 1 && hops_.far > 1) far.back() = sent(far.back(), nth(far_, place));
    }
    return sum_of(far);
  }

 private:
  Floats sent(const Floats& given, Floats& errors) const {
    Floats meant = given;
    for (size_t i = 0; i < meant.size(); ++i) meant[i] += errors[i];
    const Floats codes = through_codes(meant, 4, slice_);
    for (size_t i = 0; i < meant.size(); ++i) {
      errors[i] = kBeta * errors[i] + (1 - kBeta) * (meant[i] - codes[i]);
    }
    errors = through_codes(errors, 8, slice_);
    return codes;
  }

  const Hops hops_;
  const int64_t slice_;
  std::vector<Floats> near_, far_;
};

// Ranks that make the same reductions, each round of other numbers.
struct Rounds {
  Hops hops;
  ErrorFeedback feedback{.on = true, .beta = kBeta};
  std::function<Floats(int rank, int round)> gradient = nullptr;
  // Returns the outcome of the finished step, after each round.
  std::function<StepOutcome(int round)> outcome = [](int) { return StepOutcome{.sums = {}}; };
};
struct Seen {
  std::vector<Floats> sums{};  // of each round
  int64_t sent = 0;            // by the first rank
};

Seen run(const Rounds& rounds, int count) {
  const int ranks = rounds.hops.ranks();
  Seen seen;
  seen.sums.assign(to_size(count), Floats(to_size(kSlice * ranks)));
  std::mutex mutex;
  test::run_ranks(ranks, [&](Communicator& world) {
    DeviceRank own(world);
    CommVolume volume;
    Mesh mesh = traced_mesh(own.comm(), {.data = ranks, .shard = rounds.hops.near}, volume);
    BucketSlots slots(own.comm().memory());
    QuantizedReduce reduce(mesh.group(Axis::kShard), mesh.group(Axis::kReplica), rounds.feedback,
                           {own.stream(), own.stream()}, slots);
    reduce.add("only", kSlice);
    StepScalars scalars(1, own.stream());
    for (int round = 0; round < count; ++round) {
      const Tensor full =
          upload(rounds.gradient(world.rank(), round), Shape({kSlice * ranks}), own.stream());
      Tensor sum = Tensor::empty({kSlice}, DType::kF32, own.stream());
      volume.reset();
      reduce.begin_step(round + 1);
      reduce.reduce_scatter(0, full, sum);
      scalars.write(rounds.outcome(round));
      reduce.end_step(scalars);
      const Floats mine = floats_of(sum);
      const std::lock_guard lock(mutex);
      std::ranges::copy(mine, nth(seen.sums, round).begin() + world.rank() * kSlice);
      if (world.rank() == 0) seen.sent = volume.wire_bytes();
    }
  });
  return seen;
}

Floats gradient_of(Hops hops, int rank, int round) {
  return numbers(to_size(100 * round + rank), kSlice * hops.ranks());
}

std::vector<Floats> gradients_of(Hops hops, int round) {
  std::vector<Floats> all;
  for (int rank = 0; rank < hops.ranks(); ++rank) all.push_back(gradient_of(hops, rank, round));
  return all;
}

Rounds rounds_of(Hops hops) {
  return {.hops = hops,
          .gradient = [hops](int rank, int round) { return gradient_of(hops, rank, round); }};
}

TEST_CASE("fed back errors are those of the definition, and codes travel as without", "[zero]") {
  for (const Hops hops : {Hops{2, 1}, Hops{1, 2}, Hops{3, 1}, Hops{2, 2}, Hops{1, 4}}) {
    CAPTURE(hops.near, hops.far);
    Rounds rounds = rounds_of(hops);
    const Seen seen = run(rounds, 4);
    Reference reference(hops, kSlice);
    for (int round = 0; round < 4; ++round) {
      CHECK((nth(seen.sums, round) == reference.sum(gradients_of(hops, round))));
    }
    rounds.feedback.on = false;
    const Seen without = run(rounds, 4);
    CHECK(without.sent == seen.sent);
    CHECK((without.sums[0] == seen.sums[0]));
    CHECK((without.sums[1] != seen.sums[1]));
  }
}

TEST_CASE("errors begin anew after so many steps", "[zero]") {
  const Hops hops{2, 2};
  Rounds rounds = rounds_of(hops);
  rounds.feedback.reset_steps = 3;
  const Seen seen = run(rounds, 5);
  Reference reference(hops, kSlice);
  for (int round = 0; round < 5; ++round) {
    if (round == 3) reference.begin_anew();
    CAPTURE(round);
    CHECK((nth(seen.sums, round) == reference.sum(gradients_of(hops, round))));
  }
}

TEST_CASE("errors follow the loss scale, and are gone after a step that was skipped", "[zero]") {
  const Hops hops{2, 2};
  Rounds rounds = rounds_of(hops);
  rounds.outcome = [](int round) {
    StepOutcome outcome{.sums = {}, .loss_scale = 8};
    outcome.scaler.scale = round == 0 ? 32 : 8;
    if (round == 2) outcome.skip = static_cast<uint32_t>(Skip::kOverflow);
    return outcome;
  };
  const Seen seen = run(rounds, 4);
  Reference reference(hops, kSlice);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    CHECK((nth(seen.sums, round) == reference.sum(gradients_of(hops, round))));
    if (round == 0) reference.multiply(4);
    if (round == 2) reference.begin_anew();
  }
}

TEST_CASE("a number that is not finite leaves no error behind, and those of other runs alone",
          "[zero]") {
  const Hops hops{2, 1};
  Rounds rounds = rounds_of(hops);
  rounds.gradient = [hops](int rank, int round) {
    Floats numbers = gradient_of(hops, rank, round);
    if (rank == 0 && round == 1) numbers[5] = std::numeric_limits<float>::infinity();
    return numbers;
  };
  const Seen seen = run(rounds, 3);
  CHECK(std::isnan(seen.sums[1][5]));
  Rounds finite = rounds_of(hops);
  const Seen expected = run(finite, 3);
  const auto part = [](const Floats& all, size_t begin, size_t end) {
    return Floats(all.begin() + static_cast<int64_t>(begin),
                  all.begin() + static_cast<int64_t>(end));
  };
  CHECK(std::ranges::all_of(seen.sums[2], [](float x) { return std::isfinite(x); }));
  CHECK((part(seen.sums[2], 1440, 8640) == part(expected.sums[2], 1440, 8640)));
  CHECK((part(seen.sums[2], 0, 1440) != part(expected.sums[2], 0, 1440)));
}

// What optimizers see: the sum over many steps of nearly the same gradient.
TEST_CASE("over many steps the sums come nearer to the exact ones than without feedback",
          "[zero]") {
  constexpr int kRounds = 40;
  for (const Hops hops : {Hops{2, 1}, Hops{2, 2}}) {
    CAPTURE(hops.near, hops.far);
    Rounds rounds{.hops = hops};
    rounds.gradient = [hops](int rank, int) { return gradient_of(hops, rank, 0); };
    const Floats exact = sum_of(gradients_of(hops, 0));
    const auto lost = [&](bool on) {
      rounds.feedback.on = on;
      const Seen seen = run(rounds, kRounds);
      double squares = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        double total = 0;
        for (const Floats& sum : seen.sums) total += sum[i];
        squares += std::pow(total / kRounds - exact[i], 2);
      }
      return std::sqrt(squares / static_cast<double>(exact.size()));
    };
    CHECK(lost(true) < 0.5 * lost(false));
  }
}

}  // namespace
}  // namespace ds
