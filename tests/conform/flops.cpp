// Area flops: shape_work, layer_cost and core/number_text.
#include <functional>
#include <map>
#include <stdexcept>

#include "core/values/number_text.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"
#include "tests/conform/layer_cost.h"
#include "tests/conform/shape_work.h"

namespace ds::conform {
namespace {

using kernels::Bias;
using kernels::Work;
using Sizes = std::vector<int64_t>;

// A number for all axes or a list.
Sizes per_axis(const Json& object, const char* key, size_t axes, const Sizes& fallback) {
  const Json* value = find(object, key);
  if (!value) return fallback;
  return value->IsArray() ? list<int64_t>(*value) : Sizes(axes, as<int64_t>(*value));
}

Bias bias_of(const Json& layer) { return get_or(layer, "bias", true) ? Bias::kYes : Bias::kNo; }
Affine affine_of(const Json& layer) {
  return get_or(layer, "affine", true) ? Affine::kYes : Affine::kNo;
}

size_t axes_of(const std::string& type) { return static_cast<size_t>(type[type.size() - 2] - '0'); }

kernels::ConvShape conv_of(const Json& layer, size_t axes) {
  return {.kernel = per_axis(layer, "kernel", axes, {}),
          .stride = per_axis(layer, "stride", axes, Sizes(axes, 1)),
          .padding = per_axis(layer, "padding", axes, Sizes(axes, 0)),
          .dilation = per_axis(layer, "dilation", axes, Sizes(axes, 1)),
          .in = get_or<int64_t>(layer, "in", 1),
          .out = get_or<int64_t>(layer, "out", 1),
          .groups = get_or<int64_t>(layer, "groups", 1)};
}

kernels::ConvShape window_of(const Json& layer, size_t axes) {
  kernels::ConvShape window = conv_of(layer, axes);
  if (!find(layer, "stride")) window.stride = window.kernel;
  return window;
}

UpsampleLayer upsample_of(const Json& layer) {
  UpsampleLayer upsample{.size = per_axis(layer, "size", 1, {})};
  if (const Json* scale = find(layer, "scale")) upsample.scale = flatten<double>(*scale);
  return upsample;
}

LayerSpec recurrent_of(const Json& layer, kernels::Recurrent kind) {
  return RecurrentLayer{{.kind = kind,
                         .in = get<int64_t>(layer, "in"),
                         .hidden = get<int64_t>(layer, "hidden"),
                         .layers = get_or<int64_t>(layer, "layers", 1),
                         .bias = bias_of(layer),
                         .directions = get_or(layer, "bidirectional", false) ? 2 : 1}};
}

LayerSpec norm_of(const Json& layer, const std::string& type) {
  if (type.starts_with("BatchNorm")) {
    return BatchNormLayer{get<int64_t>(layer, "features"), affine_of(layer)};
  }
  if (type == "LayerNorm") {
    return NormLayer{kernels::numel(flatten<int64_t>(need(layer, "shape"))), affine_of(layer)};
  }
  if (type == "GroupNorm") return NormLayer{get<int64_t>(layer, "channels"), affine_of(layer)};
  // Instance norms have no affine vectors unless asked for.
  const bool affine = get_or(layer, "affine", false);
  return NormLayer{get<int64_t>(layer, "features"), affine ? Affine::kYes : Affine::kNo};
}

LayerSpec layer_of(const Json& layer) {
  const std::string type = get<std::string>(layer, "type");
  if (type == "Linear") {
    return LinearLayer{get<int64_t>(layer, "in"), get<int64_t>(layer, "out"), bias_of(layer)};
  }
  if (type.starts_with("ConvTranspose")) {
    const size_t axes = axes_of(type);
    return TransposedConvLayer{conv_of(layer, axes), per_axis(layer, "output_padding", axes, {}),
                               bias_of(layer)};
  }
  if (type.starts_with("Conv")) return ConvLayer{conv_of(layer, axes_of(type)), bias_of(layer)};
  if (type.find("Norm") != std::string::npos) return norm_of(layer, type);
  if (type.starts_with("Adaptive")) {
    return AdaptivePoolLayer{per_axis(layer, "out", axes_of(type), {})};
  }
  if (type.starts_with("AvgPool") || type.starts_with("MaxPool")) {
    return PoolLayer{window_of(layer, axes_of(type))};
  }
  if (type == "Upsample") return upsample_of(layer);
  if (type == "Flatten") return FlattenLayer{};
  if (type == "Embedding") {
    return EmbeddingLayer{get<int64_t>(layer, "num"), get<int64_t>(layer, "dim")};
  }
  if (type == "RNN") return recurrent_of(layer, kernels::Recurrent::kRnn);
  if (type == "GRU") return recurrent_of(layer, kernels::Recurrent::kGru);
  if (type == "LSTM") return recurrent_of(layer, kernels::Recurrent::kLstm);
  const std::map<std::string, ElementwiseLayer> elementwise = {
      {"ReLU", {1}},    {"PReLU", {1, 1}}, {"ELU", {1}},     {"LeakyReLU", {1}},
      {"SiLU", {1}},    {"GELU", {1}},     {"Softmax", {1}}, {"Tanh", {0}},
      {"Sigmoid", {0}}, {"ReLU6", {0}},    {"Dropout", {0}}};
  const auto known = elementwise.find(type);
  if (known == elementwise.end()) throw std::invalid_argument("layer type: " + type);
  return known->second;
}

std::string model(const Json& input) {
  LayerCost sum{{}, 0, list<int64_t>(need(input, "input_shape"))};
  for (const Json& layer : array(need(input, "layers")).GetArray()) {
    const LayerCost cost = layer_cost(layer_of(layer), sum.output);
    sum.work += cost.work;
    sum.parameters += cost.parameters;
    sum.output = cost.output;
  }
  return Answer()
      .add("flops", sum.work.flops)
      .add("macs", sum.work.macs)
      .add("params", sum.parameters)
      .text();
}

Work function_work(const Json& input, const std::vector<Sizes>& shapes) {
  const std::string name = get<std::string>(input, "name");
  if (name == "linear") return kernels::linear_work(shapes.at(0), shapes.at(1).at(0));
  if (name == "matmul" || name == "bmm") return kernels::matmul_work(shapes.at(0), shapes.at(1));
  if (name == "addmm") return kernels::addmm_work(shapes.at(0), shapes.at(1), shapes.at(2));
  if (name == "add" || name == "mul") return kernels::broadcast_work(shapes.at(0), shapes.at(1));
  if (name == "attention") {
    return kernels::attention_work(shapes.at(0), shapes.at(1), shapes.at(2));
  }
  if (name == "einsum") {
    return kernels::einsum_work(get<std::string>(input, "equation"), shapes);
  }
  if (name == "conv2d") {
    const Sizes& weight = shapes.at(1);
    kernels::ConvShape conv = conv_of(input, 2);
    conv.kernel = {weight.at(2), weight.at(3)};
    conv.in = weight.at(1) * conv.groups;
    conv.out = weight.at(0);
    return kernels::conv_work(shapes[0], conv, shapes.size() > 2 ? Bias::kYes : Bias::kNo);
  }
  if (name == "interpolate") {
    const UpsampleLayer how = upsample_of(input);
    return kernels::interpolate_work(shapes.at(0), how.size, how.scale);
  }
  throw std::invalid_argument("name: " + name);
}

std::string function(const Json& input) {
  std::vector<Sizes> shapes;
  for (const Json& shape : array(need(input, "shapes")).GetArray()) {
    shapes.push_back(shape.IsNull() ? Sizes{} : list<int64_t>(shape));
  }
  const Work work = function_work(input, shapes);
  return Answer().add("flops", work.flops).add("macs", work.macs).text();
}

std::string number(const Json& input) {
  const double value = get<double>(input, "value");
  const auto given = get_optional<std::string>(input, "units");
  const auto unit = given ? std::optional<std::string_view>(*given) : std::nullopt;
  const int precision = get_or<int>(input, "precision", 2);
  const std::string kind = get_or<std::string>(input, "kind", "number");
  const std::map<std::string, std::string> names = {
      {"number", ""}, {"flops", "FLOPS"}, {"macs", "MACs"}, {"bytes", "B"}, {"duration", "s"}};
  const std::string text = kind == "params" ? parameter_count_text(value, unit, precision)
                                            : quantity_text(value, names.at(kind), unit, precision);
  return Answer().add("text", text).text();
}

}  // namespace

std::string flops(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "model") return model(input);
  if (op == "function") return function(input);
  if (op == "number") return number(input);
  throw std::invalid_argument("op: " + op);
}

}  // namespace ds::conform
