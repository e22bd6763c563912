#include "cli/image_commands.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/run.h"
#include "data/contact_sheet.h"
#include "data/convert.h"
#include "data/image_format.h"
#include "data/inspect.h"
#include "data/packed_images.h"
#include "report/console.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

const char* nameOf(Split split) {
  return split == Split::Train ? "train" : split == Split::Test ? "test" : "validation";
}

std::string sizesText(const SplitInfo& info) {
  const std::string largest = fmt::format("{}x{}", info.largest.height, info.largest.width);
  const std::string sizes = info.smallest == info.largest ? largest
                                                          : fmt::format("{}x{} to {}", info.smallest.height,
                                                                        info.smallest.width, largest);
  return fmt::format("{} pixels, {}", sizes, info.largest.channels == 1 ? "grey" : "colour");
}

struct InfoArguments {
  std::string place;
  std::string sheet;
};

int infoCommand(const InfoArguments& arguments) {
  const ImagesInfo info = inspectImages(arguments.place);
  fmt::print("{}: {}, {} classes\n", arguments.place, info.format, info.classNames.size());
  for (const SplitInfo& split : info.splits) {
    fmt::print("{:<11}{:>9} images, {}\n", nameOf(split.split), groupedText(split.images), sizesText(split));
  }
  fmt::print("\n{:<24}", "class");
  for (const SplitInfo& split : info.splits) fmt::print("{:>12}", nameOf(split.split));
  fmt::print("\n");
  for (std::size_t c = 0; c < info.classNames.size(); ++c) {
    fmt::print("{:<24}",
               fmt::format("{} {}", c, info.classNames[c] == std::to_string(c) ? "" : info.classNames[c]));
    for (const SplitInfo& split : info.splits) {
      fmt::print("{:>12}", groupedText(c < split.perClass.size() ? split.perClass[c] : 0));
    }
    fmt::print("\n");
  }
  if (!arguments.sheet.empty()) {
    const ImageFormat& format = recogniseImages(arguments.place);
    writeWholeFile(arguments.sheet,
                   encodePng(contactSheet(*format.open(arguments.place, info.splits.front().split))));
    fmt::print("\nsheet {}\n", arguments.sheet);
  }
  return kSuccess;
}

struct ConvertArguments {
  std::string from;
  std::string to;
  std::string target;
};

int convertCommand(const ConvertArguments& arguments) {
  if (arguments.target != "tfrecord" && arguments.target != "binary") {
    throw UsageError(fmt::format("--to is tfrecord or binary, not '{}'", arguments.target));
  }
  const ConvertReport report =
      convertDataset(arguments.from, arguments.to,
                     arguments.target == "binary" ? ConvertTarget::Binary : ConvertTarget::Tfrecord);
  fmt::print("from {} ({})\n", arguments.from, report.source);
  for (const ConvertedFile& file : report.files) {
    fmt::print("{}: {} images\n", file.path.string(), groupedText(file.images));
  }
  return kSuccess;
}

struct PackArguments {
  std::string from;
  std::string to;
};

int packCommand(const PackArguments& arguments) {
  const ImageFormat& format = recogniseImages(arguments.from);
  std::error_code ignored;
  if (fs::is_directory(arguments.to, ignored)) {
    throw UsageError(fmt::format("{} is a folder; name the packed file itself, such as {}/images.pack",
                                 arguments.to, arguments.to));
  }
  std::int64_t images = 0;
  packImages([&](Split split) { return format.open(arguments.from, split); }, arguments.to,
             [&](std::int64_t, std::int64_t all) { images = all; });
  fmt::print("{}: {} images, {}\n", arguments.to, groupedText(images),
             bytesText(static_cast<double>(fs::file_size(arguments.to))));
  return kSuccess;
}

}  // namespace

void addImageCommands(CLI::App& data, int& exitCode) {
  CLI::App* command =
      data.add_subcommand("info", "Format, classes and sizes of what is in a folder; reads every image");
  const auto info = std::make_shared<InfoArguments>();
  command->add_option("place", info->place, "a folder, or a packed file")->type_name("PATH")->required();
  command->add_option("--sheet", info->sheet, "draw some images of each class into this PNG file")
      ->type_name("FILE");
  command->callback([info, &exitCode] { exitCode = infoCommand(*info); });

  command = data.add_subcommand("convert", "Write CIFAR-10 as TFRecords, or back as binary files");
  const auto convert = std::make_shared<ConvertArguments>();
  command->add_option("from", convert->from, "the folder to read")->type_name("FROM")->required();
  command->add_option("folder", convert->to, "the folder to write into")->type_name("TO")->required();
  command->add_option("--to", convert->target, "tfrecord or binary")->type_name("FORMAT")->required();
  command->callback([convert, &exitCode] { exitCode = convertCommand(*convert); });

  command = data.add_subcommand("pack", "Put all images of a folder into one file that opens at once");
  const auto pack = std::make_shared<PackArguments>();
  command->add_option("from", pack->from, "the folder to read")->type_name("FROM")->required();
  command->add_option("file", pack->to, "the file to write; 'train --data-dir FILE' uses it")
      ->type_name("FILE")
      ->required();
  command->callback([pack, &exitCode] { exitCode = packCommand(*pack); });
}

}  // namespace cohort
