// Area onebit: kernels/quantize/onebit_math.
#include <stdexcept>

#include "kernels/quantize/onebit_math.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

std::string compress(const Json& input) {
  const std::vector<float> values = list<float>(need(input, "values"));
  const Json* previous = find(input, "prev_error");
  std::vector<float> error = previous ? list<float>(*previous) : std::vector<float>(values.size());
  std::vector<uint8_t> packed(kernels::sign_bytes(values.size()));
  const float scale = kernels::compress_signs(values, error, packed);
  std::vector<float> signs(values.size());
  kernels::expand_signs(packed, 1.0F, signs);
  std::string text;
  for (const float sign : signs) text += sign > 0 ? '+' : '-';
  return Answer()
      .add("scale", scale)
      .add("signs", text)
      .add("packed", packed)
      .add("new_error", error)
      .text();
}

std::string allreduce(const Json& input) {
  const Json& rounds = array(need(input, "buffers"));
  std::vector<kernels::OneBitErrors> errors;
  std::vector<std::vector<float>> result;
  for (const Json& round : rounds.GetArray()) {
    std::vector<std::vector<float>> buffers;
    for (const Json& buffer : array(round).GetArray()) buffers.push_back(list<float>(buffer));
    const int64_t ranks = static_cast<int64_t>(buffers.size());
    if (errors.empty()) {
      errors.assign(buffers.size(),
                    kernels::OneBitErrors::zeros(get<int64_t>(input, "padded"), ranks));
    }
    result.push_back(kernels::onebit_average(buffers, errors));
  }
  std::vector<std::vector<float>> worker, server;
  for (const auto& error : errors) {
    worker.push_back(error.worker);
    server.push_back(error.server);
  }
  return Answer()
      .add("result", result)
      .add("worker_error", worker)
      .add("server_error", server)
      .text();
}

}  // namespace

std::string onebit(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "compress") return compress(input);
  if (op == "allreduce") return allreduce(input);
  throw std::invalid_argument("op: " + op);
}

}  // namespace ds::conform
