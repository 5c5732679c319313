// Area quantizer: kernels/quantize/quantize_math.
#include <stdexcept>

#include "kernels/quantize/quantize_math.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

kernels::QuantScheme scheme_named(const std::string& name) {
  if (name == "symmetric") return kernels::QuantScheme::kSymmetric;
  if (name == "asymmetric") return kernels::QuantScheme::kAsymmetric;
  if (name == "ternary") return kernels::QuantScheme::kTernary;
  if (name == "binary") return kernels::QuantScheme::kBinary;
  throw std::invalid_argument("scheme: " + name);
}

std::string fake_quant(const Json& input) {
  kernels::FakeQuant how{.scheme = scheme_named(get<std::string>(input, "scheme")),
                         .bits = get_or<int>(input, "bits", 8),
                         .groups = get_or<int64_t>(input, "groups", 1)};
  const auto low = get_optional<float>(input, "min_value"),
             high = get_optional<float>(input, "max_value");
  if (low.has_value() != high.has_value()) throw std::invalid_argument("one end of the range");
  if (low) how.static_range = std::pair(*low, *high);
  const std::vector<float> values = flatten<float>(need(input, "values"));
  std::vector<float> out(values.size());
  kernels::fake_quantize(values, out, how);
  return Answer().add("values", out).text();
}

std::string group_quant(const Json& input) {
  const Json& values = array(need(input, "values"));
  const kernels::GroupQuant how{.bits = get<int>(input, "bits"),
                                .rows = values.Size(),
                                .columns = values.Empty() ? 0 : array(values[0]).Size(),
                                .group_size = get<int64_t>(input, "group_size"),
                                .group_axis = get<int>(input, "group_dim")};
  const kernels::GroupQuantized result = kernels::quantize_groups(flatten<float>(values), how);
  return Answer()
      .add("q", result.q)
      .add("scale", result.scale)
      .add("min", result.min)
      .add("dequant", kernels::dequantize_groups(result, how))
      .text();
}

std::string int_quant(const Json& input) {
  const auto range = get<bool>(input, "symmetric") ? kernels::IntRange::kSymmetric
                                                   : kernels::IntRange::kAsymmetric;
  std::vector<int8_t> q_all;
  std::vector<float> scales, offsets, dequant;
  for (const Json& group : array(need(input, "values")).GetArray()) {
    const std::vector<float> values = list<float>(group);
    std::vector<int8_t> q(values.size());
    std::vector<float> back(values.size());
    const auto scale = kernels::quantize_int(values, get<int>(input, "bits"), range, q);
    kernels::dequantize_int(q, scale, back);
    q_all.insert(q_all.end(), q.begin(), q.end());
    dequant.insert(dequant.end(), back.begin(), back.end());
    scales.push_back(1 / scale.scale);
    offsets.push_back(scale.offset);
  }
  return Answer()
      .add("q", q_all)
      .add("scales", scales)
      .add("offsets", offsets)
      .add("dequant", dequant)
      .text();
}

std::string moq_schedule(const Json& input) {
  kernels::BitSchedule schedule(get<int>(input, "start_bits"), get<int>(input, "target_bits"),
                                get<int64_t>(input, "period"), get_or<int64_t>(input, "factor", 1));
  std::vector<int64_t> bits, period;
  for (int64_t step = 0; step < get<int64_t>(input, "steps"); ++step) {
    const auto& state = schedule.step();
    bits.push_back(state.bits);
    period.push_back(state.period);
  }
  return Answer().add("bits", bits).add("period", period).text();
}

}  // namespace

std::string quantizer(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "fake_quant") return fake_quant(input);
  if (op == "group_quant") return group_quant(input);
  if (op == "int_quant") return int_quant(input);
  if (op == "moq_schedule") return moq_schedule(input);
  if (op == "topk_mask") {
    const auto mask =
        kernels::largest_mask(flatten<float>(need(input, "values")), get<double>(input, "keep"));
    return Answer().add("mask", mask).text();
  }
  throw std::invalid_argument("op: " + op);
}

}  // namespace ds::conform
