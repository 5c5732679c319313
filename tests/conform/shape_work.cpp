// Work of the standard operations.
#include "tests/conform/shape_work.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "core/status/error.h"

namespace ds::kernels {
namespace {

Work from_macs(int64_t macs) { return {.flops = 2 * macs, .macs = macs}; }

int64_t gates(Recurrent kind) {
  return kind == Recurrent::kRnn ? 1 : kind == Recurrent::kGru ? 3 : 4;
}

// macs of one convolution with `positions` places of the kernel per sample.
int64_t conv_macs(Dims x, const ConvShape& conv, int64_t positions) {
  return numel(conv.kernel) * conv.in * (conv.out / conv.groups) * x[0] * positions;
}

void check_conv(Dims x, const ConvShape& conv) {
  const size_t axes = conv.kernel.size();
  DS_CHECK(x.size() == axes + 2 && conv.stride.size() == axes && conv.padding.size() == axes &&
               conv.dilation.size() == axes,
           "convolution: input of {} axes, kernel {}, stride {}, padding {}, dilation {}", x.size(),
           axes, conv.stride.size(), conv.padding.size(), conv.dilation.size());
  if (x[1] != conv.in || conv.groups < 1 || conv.in % conv.groups != 0 ||
      conv.out % conv.groups != 0) {
    throw ConfigError(
        fmt::format("convolution: {} input channels given, {} to {} channels in {} groups expected",
                    x[1], conv.in, conv.out, conv.groups));
  }
}

}  // namespace

int64_t numel(Dims shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Work linear_work(Dims x, int64_t out) { return from_macs(numel(x) * out); }

Work matmul_work(Dims a, Dims b) {
  DS_CHECK(!a.empty() && !b.empty(), "matmul: a scalar operand");
  return from_macs(numel(a) * b.back());
}

Work addmm_work(Dims added, Dims a, Dims b) {
  Work work = matmul_work(a, b);
  work.flops += numel(added);
  return work;
}

Work attention_work(Dims q, Dims k, Dims v) {
  DS_CHECK(q.size() >= 2 && k.size() >= 2 && v.size() >= 2, "attention: operands need two axes");
  const int64_t keys = k[k.size() - 2];
  return from_macs(numel(q) * keys + numel(q.first(q.size() - 1)) * keys * v.back());
}

Work broadcast_work(Dims a, Dims b) {
  int64_t elements = 1;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ConfigError(fmt::format("broadcast: sizes {} and {} do not fit", x, y));
    }
    elements *= x == 1 ? y : x;
  }
  return {.flops = elements};
}

Work per_element_work(Dims x, int64_t flops_per_element) {
  return {.flops = numel(x) * flops_per_element};
}

std::vector<int64_t> conv_output(Dims spatial, const ConvShape& conv) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t reach = conv.dilation[i] * (conv.kernel[i] - 1) + 1;
    const int64_t room = spatial[i] + 2 * conv.padding[i] - reach;
    if (room < 0 || conv.stride[i] < 1) {
      throw ConfigError(fmt::format(
          "convolution: a kernel of reach {} and stride {} does not fit {} padded by {}", reach,
          conv.stride[i], spatial[i], conv.padding[i]));
    }
    out.push_back(room / conv.stride[i] + 1);
  }
  return out;
}

std::vector<int64_t> transposed_output(Dims spatial, const ConvShape& conv, Dims output_padding) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t extra = i < output_padding.size() ? output_padding[i] : 0;
    out.push_back((spatial[i] - 1) * conv.stride[i] - 2 * conv.padding[i] +
                  conv.dilation[i] * (conv.kernel[i] - 1) + 1 + extra);
  }
  return out;
}

Work conv_work(Dims x, const ConvShape& conv, Bias bias) {
  check_conv(x, conv);
  const int64_t positions = numel(conv_output(x.subspan(2), conv));
  Work work = from_macs(conv_macs(x, conv, positions));
  if (bias == Bias::kYes) work.flops += conv.out * x[0] * positions;
  return work;
}

namespace {

// conv_output's formula where a kernel may be larger than its input, as it may for a transposed
// convolution.
int64_t transposed_bias_positions(Dims spatial, const ConvShape& conv) {
  int64_t positions = 1;
  for (size_t i = 0; i < spatial.size(); ++i) {
    const int64_t stride = conv.stride[i];
    if (stride < 1) throw ConfigError(fmt::format("convolution: stride is {}", stride));
    const int64_t reach = conv.dilation[i] * (conv.kernel[i] - 1) + 1;
    const int64_t room = spatial[i] + 2 * conv.padding[i] - reach;
    const int64_t down = room < 0 ? (stride - 1 - room) / stride : 0;  // a quotient below 0
    positions *= (room < 0 ? -down : room / stride) + 1;
  }
  return positions;
}

}  // namespace

Work transposed_conv_work(Dims x, const ConvShape& conv, Bias bias) {
  check_conv(x, conv);
  Work work = from_macs(conv_macs(x, conv, numel(x.subspan(2))));
  if (bias == Bias::kYes) {
    work.flops += conv.out * x[0] * transposed_bias_positions(x.subspan(2), conv);
  }
  return work;
}

Work interpolate_work(Dims x, std::span<const int64_t> size, std::span<const double> scale) {
  if (!size.empty()) return {.flops = numel(size)};
  if (scale.empty()) throw ConfigError("interpolate: neither size nor scale is given");
  const size_t axes = x.size() < 2 ? 0 : x.size() - 2;
  if (scale.size() != 1 && scale.size() != axes) {
    throw ConfigError(
        fmt::format("interpolate: {} scales for {} spatial axes", scale.size(), axes));
  }
  // The factor first and then the elements: rounding down tells the two orders apart.
  double factor = 1;
  if (scale.size() == 1) {
    factor = std::pow(scale[0], static_cast<double>(axes));
  } else {
    for (const double s : scale) factor *= s;
  }
  return {.flops = static_cast<int64_t>(static_cast<double>(numel(x)) * factor)};
}

namespace {

// The index letters of every operand, and which of them the result keeps.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation parse_equation(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (c != ' ') letters += c;
  }
  const size_t arrow = letters.find("->");
  Equation equation;
  std::string operand;
  for (const char c : letters.substr(0, arrow) + ",") {
    if (c == ',') {
      equation.operands.push_back(std::exchange(operand, {}));
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      operand += c;
    } else {
      throw ConfigError(fmt::format("einsum: '{}' in '{}' is not understood", c, text));
    }
  }
  if (arrow != std::string::npos) {
    equation.result = letters.substr(arrow + 2);
    return equation;
  }
  std::map<char, int> uses;  // without an arrow the indices that occur once are kept
  for (const std::string& o : equation.operands) {
    for (const char c : o) ++uses[c];
  }
  for (const auto& [c, count] : uses) {
    if (count == 1) equation.result += c;
  }
  return equation;
}

}  // namespace

Work einsum_work(std::string_view text, std::span<const std::vector<int64_t>> shapes) {
  const Equation equation = parse_equation(text);
  if (equation.operands.size() > 2) {
    throw Unsupported(fmt::format("einsum: flops of {} operands at once are not counted; use pairs",
                                  equation.operands.size()));
  }
  if (equation.operands.size() != shapes.size()) {
    throw ConfigError(fmt::format("einsum: '{}' has {} operands, {} shapes were given", text,
                                  equation.operands.size(), shapes.size()));
  }
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string& letters = equation.operands[i];
    if (letters.size() != shapes[i].size()) {
      throw ConfigError(fmt::format("einsum: '{}' names {} axes, the operand has {}", letters,
                                    letters.size(), shapes[i].size()));
    }
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      int64_t& size = sizes.try_emplace(letters[axis], shapes[i][axis]).first->second;
      if (size != shapes[i][axis] && size != 1 && shapes[i][axis] != 1) {
        throw ConfigError(
            fmt::format("einsum: index {} is {} and {}", letters[axis], size, shapes[i][axis]));
      }
      size = std::max(size, shapes[i][axis]);
    }
  }
  int64_t product = 1;
  bool sums = false;
  for (const auto& [letter, size] : sizes) {
    product *= size;
    sums = sums || equation.result.find(letter) == std::string::npos;
  }
  return {.flops = product * (sums ? 2 : 1) + 1};
}

Work recurrent_work(int64_t positions, const RecurrentShape& shape) {
  const int64_t rows = gates(shape.kind) * shape.hidden;
  const int64_t inner = shape.kind == Recurrent::kRnn ? 1 : shape.kind == Recurrent::kGru ? 7 : 10;
  int64_t flops = 0;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const int64_t in = layer == 0 ? shape.in : shape.hidden * shape.directions;
    flops += 2 * rows * in - rows + 2 * rows * shape.hidden - rows + inner * shape.hidden;
    if (shape.bias == Bias::kYes) flops += 2 * rows;
  }
  return {.flops = flops * positions * shape.directions};
}

int64_t recurrent_parameters(const RecurrentShape& shape) {
  const int64_t rows = gates(shape.kind) * shape.hidden;
  int64_t count = 0;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const int64_t in = layer == 0 ? shape.in : shape.hidden * shape.directions;
    count += rows * (in + shape.hidden + (shape.bias == Bias::kYes ? 2 : 0));
  }
  return count * shape.directions;
}

}  // namespace ds::kernels
