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

// The words of the command line that the answer repeats.
struct Asked {
  std::string destination, to, dtype;
  bool json = false;
};

std::string converted_json(const Converted& done, const Asked& asked) {
  Value out = Value::object();
  out.set("source", Value::string(done.from));
  out.set("written_by", Value::string(done.by));
  out.set("step", done.step ? Value::integer(*done.step) : Value::null());
  out.set("kind", Value::string(asked.to));
  out.set("destination", Value::string(asked.destination));
  out.set("dtype", Value::string(asked.dtype));
  out.set("tensors", Value::integer(done.tensors));
  out.set("parameters", Value::integer(done.numel));
  out.set("bytes", Value::integer(done.bytes));
  out.set("notes", strings_value(done.notes));
  return to_compact_json(out) + "\n";
}

std::string converted_line(const Converted& done, const Asked& asked) {
  const std::string step = done.step ? fmt::format(", step {}", *done.step) : "";
  std::string line = fmt::format("{} (by {}{}): {} tensors, {} parameters, {} bytes as {} in {}\n",
                                 done.from, done.by, step, done.tensors, done.numel, done.bytes,
                                 asked.dtype, asked.destination);
  for (const std::string& note : done.notes) line += fmt::format("note: {}\n", note);
  return line;
}

// `what` without what `asked` says of the destination.
int execute(Conversion what, const Asked& asked) {
  what.destination = asked.destination;
  what.dtype = parse_dtype(asked.dtype);
  what.target = target_of(asked.to);
  what.go_on = EndRequest::check;
  RealFileSystem files;
  try {
    const EndRequest request;
    const Converted done = convert(files, what);
    print_now(asked.json ? converted_json(done, asked) : converted_line(done, asked));
    return 0;
  } catch (const EndRequested& end) {
    end_by(end.signal());
  }
}

}  // namespace

int run_convert(const ConvertArgs& args) {
  return execute({.source = args.source,
                  .destination = {},
                  .tag = args.tag,
                  .config = args.config,
                  .base = args.base,
                  .name_map = args.name_map},
                 {args.destination, args.to, args.dtype, args.json});
}

int run_merge(const MergeArgs& args) {
  return execute({.source = args.source,
                  .destination = {},
                  .base = args.base,
                  .wanted = WantedSource::kAdapters},
                 {args.destination, args.to, args.dtype, args.json});
}

}  // namespace ds
