#include "data/chat/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/status/error.h"
#include "core/text/utf8.h"
#include "data/chat/run/filters.h"
#include "data/chat/run/tests.h"
#include "data/chat/syntax/parser.h"
#include "data/chat/value/from_json.h"

namespace ds {
namespace {

std::string at_line(const std::string& name, int line, const char* what) {
  return fmt::format("{}: line {}: {}", name, line, what);
}

chat::Value converted(const rapidjson::Value& variables, const std::string& name) {
  if (!variables.IsObject())
    throw DataError(fmt::format("{}: the variables are no JSON object", name));
  try {
    return chat::from_json(variables);
  } catch (const chat::Fault& fault) {
    throw DataError(fmt::format("{}: in the variables: {}", name, fault.what()));
  }
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name) {
  if (std::cmp_greater(source.size(), kLargestSource))
    throw DataError(fmt::format("{}: a template of more than {} bytes", name, kLargestSource));
  if (const size_t invalid = first_invalid_utf8(source); invalid != std::string_view::npos)
    throw DataError(fmt::format("{}: invalid UTF-8 at byte {}", name, invalid));
  const chat::Vocabulary vocabulary{
      [](std::string_view filter) { return chat::find_filter(filter) != nullptr; },
      [](std::string_view test) { return chat::find_test(test) != nullptr; }};
  ChatTemplate out;
  try {
    out.tree_ = chat::parse_template(source, vocabulary);
  } catch (const chat::UnsupportedFault& fault) {
    throw Unsupported(at_line(name, fault.line(), fault.what()));
  } catch (const chat::SyntaxFault& fault) {
    throw DataError(at_line(name, fault.line(), fault.what()));
  }
  out.has_generation_ = std::ranges::any_of(out.tree_->nodes, [](const chat::Node& node) {
    return node.kind == chat::NodeKind::kGeneration;
  });
  out.name_ = std::move(name);
  return out;
}

RenderedChat ChatTemplate::render(const rapidjson::Value& variables, const ChatClock& clock,
                                  const RenderLimits& limits) const {
  const chat::Value values = converted(variables, name_);
  chat::Budget budget(limits);
  chat::Interpreter interpreter(*tree_, values.as_dict(), budget, clock);
  try {
    RenderedChat out;
    out.text = interpreter.run();
    out.generation = interpreter.generation();
    out.has_marks = has_generation_;
    out.unplaced_generation_line = interpreter.unplaced_generation_line();
    return out;
  } catch (const chat::Fault& fault) {
    throw DataError(at_line(name_, interpreter.line(), fault.what()));
  }
}

}  // namespace ds
