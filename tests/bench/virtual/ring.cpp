// What zigzag order is worth in ring attention: real keys, values and gradients go round by
// model/parallel/ring_passes, and a rank sleeps as long as the pairs of query and key that causal
// attention leaves it, instead of computing them. Contiguous order passes by the same code.
// Ideal is a rank's share of all pairs. Goals: 0.90 of ideal, and 1.6 times contiguous order.
// Beside other work, `chrt -f 10` keeps ranks that wake up from waiting for a core.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "model/parallel/ring_passes.h"
#include "tests/bench/median.h"
#include "tests/bench/virtual/ranks.h"

namespace ds {
namespace {

struct Setting {
  int ranks = 4;
  int rounds = 5;
  int64_t length = 512;   // of a rank's rows
  double seconds = 0.02;  // of length x length pairs in the forward pass; the backward has two
};

double pairs(const std::vector<kernels::AttentionPart>& parts) {
  double sum = 0;
  for (const kernels::AttentionPart& part : parts) {
    const double all =
        static_cast<double>(part.queries.count) * static_cast<double>(part.keys.count);
    sum += part.mask.is_causal() ? all / 2 : all;
  }
  return sum;
}

using Pairs = std::function<double(int rank, int owner)>;

// Forward and backward of one layer.
void attend(const Setting& setting, const Pairs& pairs_of, Communicator& world, Stream& stream,
            const Tensor& keys) {
  const double all = static_cast<double>(setting.length) * static_cast<double>(setting.length);
  const auto work = [&](int owner, double passes) {
    bench::work_for(passes * setting.seconds * pairs_of(world.rank(), owner) / all);
  };
  pass_keys({stream, stream, world}, keys, [&](int owner, const Tensor&) { work(owner, 1); });
  pass_gradients({stream, stream, world}, keys,
                 [&](int owner, const Tensor&, Tensor&) { work(owner, 2); });
}

void compare(const Setting& setting) {
  const kernels::AttentionShape here{
      .batch = 1, .length = setting.length, .heads = 4, .kv_heads = 4, .head_dim = 64};
  const double length = static_cast<double>(setting.length);
  const Pairs zigzag = [&](int rank, int owner) {
    return pairs(zigzag_parts({.shape = here}, {rank, setting.ranks}, owner));
  };
  const Pairs contiguous = [&](int rank, int owner) {
    return owner == rank ? length * length / 2 : owner < rank ? length * length : 0;
  };
  bench::on_processes(setting.ranks, [&](Communicator& world, Stream& stream) {
    const Tensor keys =
        Tensor::zeros({setting.length, 2 * here.kv_heads * here.head_dim}, DType::kF32, stream);
    std::vector<double> balanced, plain, ratios;
    for (int round = 0; round < setting.rounds; ++round) {
      const auto timed = [&](const Pairs& order) {
        return bench::seconds_of(world, stream,
                                 [&] { attend(setting, order, world, stream, keys); });
      };
      balanced.push_back(timed(zigzag));
      plain.push_back(timed(contiguous));
      ratios.push_back(plain.back() / balanced.back());
    }
    if (world.rank() != 0) return;
    const double ideal = 3 * setting.seconds * setting.ranks / 2;
    const double reached = ideal / bench::median(balanced), faster = bench::median(ratios);
    fmt::print(
        "{} ranks, medians of {} rounds: zigzag {:.1f} ms, contiguous {:.1f} ms, ideal {:.1f} ms; "
        "{:.3f} of ideal{}, {:.2f} times contiguous (theory {:.2f}){}\n",
        setting.ranks, setting.rounds, bench::median(balanced) * 1e3, bench::median(plain) * 1e3,
        ideal * 1e3, reached, reached < 0.9 ? " MISSED" : "", faster, 2 - 1.0 / setting.ranks,
        faster < 1.6 ? " MISSED" : "");
    std::fflush(stdout);
  });
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) try {
  CLI::App app("zigzag ring attention with virtual compute");
  ds::Setting setting;
  double ms = 20;
  app.add_option("--ranks", setting.ranks);
  app.add_option("--rounds", setting.rounds);
  app.add_option("--length", setting.length, "rows of a rank, an even number");
  app.add_option("--ms", ms, "of the forward pass of as many queries over as many keys");
  CLI11_PARSE(app, argc, argv);
  setting.seconds = ms / 1e3;
  ds::compare(setting);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "virtual_ring: %s\n", error.what());
  return 1;
}
