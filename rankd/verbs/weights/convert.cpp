#include "rankd/verbs/weights/convert.h"

#include "rankd/verbs/terminal/end_request.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "rankd/verbs/terminal/json_values.h"
#include "train/convert/convert.h"

namespace ds {
namespace {

ConversionTarget target_of(const std::string& kind) {
  if (kind == "universal") return ConversionTarget::kUniversal;
  return kind == "bin" ? ConversionTarget::kBin : ConversionTarget::kHf;
}

std::string converted_json(const Converted& done, const ConvertArgs& args) {
  Value out = Value::object();
  out.set("source", Value::string(done.from));
  out.set("written_by", Value::string(done.by));
  out.set("step", done.step ? Value::integer(*done.step) : Value::null());
  out.set("kind", Value::string(args.to));
  out.set("destination", Value::string(args.destination));
  out.set("dtype", Value::string(args.dtype));
  out.set("tensors", Value::integer(done.tensors));
  out.set("parameters", Value::integer(done.numel));
  out.set("bytes", Value::integer(done.bytes));
  out.set("notes", strings_value(done.notes));
  return to_compact_json(out) + "\n";
}

std::string converted_line(const Converted& done, const ConvertArgs& args) {
  const std::string step = done.step ? fmt::format(", step {}", *done.step) : "";
  std::string line = fmt::format("{} (by {}{}): {} tensors, {} parameters, {} bytes as {} in {}\n",
                                 done.from, done.by, step, done.tensors, done.numel, done.bytes,
                                 args.dtype, args.destination);
  for (const std::string& note : done.notes) line += fmt::format("note: {}\n", note);
  return line;
}

}  // namespace

int run_convert(const ConvertArgs& args) {
  RealFileSystem files;
  try {
    const EndRequest request;
    const Converted done = convert(files, {.source = args.source,
                                           .destination = args.destination,
                                           .tag = args.tag,
                                           .config = args.config,
                                           .name_map = args.name_map,
                                           .dtype = parse_dtype(args.dtype),
                                           .target = target_of(args.to),
                                           .go_on = EndRequest::check});
    print_now(args.json ? converted_json(done, args) : converted_line(done, args));
    return 0;
  } catch (const EndRequested& end) {
    end_by(end.signal());
  }
}

}  // namespace ds
