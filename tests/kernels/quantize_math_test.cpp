// Quantizer arithmetic: each scheme on values a person can check, limits, degenerate groups.
#include "kernels/quantize/quantize_math.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status/error.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;
using namespace ds::kernels;
using ds::testing::Arguments;
using Floats = std::vector<float>;

namespace {

QuantScheme scheme_of(const std::string& name) {
  if (name == "symmetric") return QuantScheme::kSymmetric;
  if (name == "asymmetric") return QuantScheme::kAsymmetric;
  return name == "ternary" ? QuantScheme::kTernary : QuantScheme::kBinary;
}

std::string integers(const Arguments& args, const Floats& x) {
  std::vector<int8_t> q(x.size());
  Floats back(x.size());
  const auto range = args.verb == "int_symmetric" ? IntRange::kSymmetric : IntRange::kAsymmetric;
  const IntScale scale = quantize_int(x, static_cast<int>(args.integer("bits")), range, q);
  dequantize_int(q, scale, back);
  return fmt::format("scale {:.6g} offset {:.6g}: {}\n= {:.4g}\n", scale.scale, scale.offset,
                     fmt::join(q, " "), fmt::join(back, " "));
}

std::string answer(const std::string& command) {
  const Arguments args(command);
  const Floats x = args.list<float>("x");
  try {
    if (args.verb.starts_with("int_")) return integers(args, x);
    if (args.verb == "mask") {
      return fmt::format("{}\n", fmt::join(largest_mask(x, args.number("keep")), ""));
    }
    if (args.verb == "schedule") {
      BitSchedule schedule(static_cast<int>(args.integer("from")),
                           static_cast<int>(args.integer("to")), args.integer("period"),
                           args.integer("factor"));
      std::vector<int> bits;
      for (int64_t i = 0; i < args.integer("steps"); ++i) bits.push_back(schedule.step().bits);
      return fmt::format("{}\n", fmt::join(bits, " "));
    }
    FakeQuant how{.scheme = scheme_of(args.verb),
                  .bits = static_cast<int>(args.integer("bits", 8)),
                  .groups = args.integer("groups", 1)};
    if (args.has("range")) {
      const Floats range = args.list<float>("range");
      how.static_range = std::pair(range.at(0), range.at(1));
    }
    Floats out(x.size());
    fake_quantize(x, out, how);
    return fmt::format("{:.5g}\n", fmt::join(out, " "));
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace

TEST_CASE("quantizers follow the golden file", "[kernels]") {
  ds::testing::run_golden("quantize.txt", answer);
}

TEST_CASE("stochastic rounding is unbiased and repeatable", "[kernels]") {
  const Floats x(20000, 0.3F);
  Floats values = x;
  values[0] = 8;  // fixes the scale at 1
  Floats once(values.size()), again(values.size());
  const Rng rng(3, "quantize");
  fake_quantize(values, once, {.bits = 4, .stochastic = &rng});
  fake_quantize(values, again, {.bits = 4, .stochastic = &rng});
  CHECK(once == again);
  double sum = 0;
  for (size_t i = 1; i < once.size(); ++i) sum += once[i];
  CHECK(sum / static_cast<double>(once.size() - 1) == Approx(0.3).margin(0.02));
}

TEST_CASE("group quantization bounds the error by half a level in both axes", "[kernels]") {
  const Rng rng(5, "weights");
  Floats x(6 * 8);
  for (size_t i = 0; i < x.size(); ++i) x[i] = rng.normal(i);
  x[0] = x[1] = x[2] = x[3] = 0.25F;  // a constant group along axis 1
  for (const int bits : {4, 8}) {
    for (const int axis : {0, 1}) {
      const GroupQuant how{.bits = bits,
                           .rows = 6,
                           .columns = 8,
                           .group_size = axis == 0 ? 3 : 4,
                           .group_axis = axis};
      const GroupQuantized q = quantize_groups(x, how);
      CHECK(q.q.size() == (bits == 4 ? 24 : 48));
      CHECK(static_cast<int64_t>(q.scale.size()) == how.group_count());
      const Floats back = dequantize_groups(q, how);
      for (int64_t i = 0; i < 48; ++i) {
        const size_t at = static_cast<size_t>(i);
        const float scale = q.scale[static_cast<size_t>(how.group_of(i / 8, i % 8))];
        CHECK(std::abs(back[at] - x[at]) <= 0.501F / scale);
      }
    }
  }
  // 15 * (1 / 0.6), not 15 / 0.6, which is 24.999998.
  CHECK(quantize_groups(Floats{-0.3F, 0.3F}, {.bits = 4, .rows = 1, .columns = 2, .group_size = 2})
            .scale == Floats{25});
  CHECK_THROWS_AS(quantize_groups(x, {.bits = 3, .rows = 6, .columns = 8}), ConfigError);
  CHECK_THROWS_AS(quantize_groups(x, {.rows = 6, .columns = 8, .group_size = 3}), ConfigError);
  CHECK_THROWS_AS(quantize_groups(Floats(3), {.bits = 4, .rows = 1, .columns = 3}), ConfigError);
}

TEST_CASE("the share of full precision falls and restarts when a bit is dropped", "[kernels]") {
  BitSchedule schedule(4, 3, 3, 1, 0.4);
  CHECK(schedule.step().full_precision_share == Approx(0.6));
  CHECK(schedule.step().full_precision_share == Approx(0.2));
  CHECK(schedule.step().full_precision_share == 1.0);
  CHECK(schedule.state().bits == 3);
  schedule.step();
  schedule.step();
  CHECK(schedule.step().full_precision_share == 0.0);
  CHECK_THROWS_AS(BitSchedule(4, 5, 1), ConfigError);
  CHECK_THROWS_AS(BitSchedule(4, 3, 0), ConfigError);
}
