#include "report/receipt_file.h"

#include <bit>
#include <cstdint>
#include <map>

#include "report/step_lines.h"

namespace cohort {

ReceiptFile::ReceiptFile(const std::filesystem::path& path, Step resumeStep)
    : lines_(std::make_unique<StepLines>(path, resumeStep)) {}

ReceiptFile::~ReceiptFile() = default;

void ReceiptFile::add(const Receipt& receipt) {
  StepJson json{{"step", receipt.step}, {"loss", receipt.loss}, {"weights", receipt.weights}};
  if (!receipt.parameters.empty()) {
    StepJson& parameters = json["parameters"] = StepJson::object();
    for (const auto& [name, hash] : receipt.parameters) parameters[name] = hash;
  }
  lines_->add(json);
}

void ReceiptFile::flush() {
  lines_->flush();
}

std::vector<Receipt> readReceipts(const std::filesystem::path& path) {
  std::vector<Receipt> receipts;
  forEachStepLine(path, [&](const StepJson& json) {
    Receipt receipt;
    load(json, "step", receipt.step);
    load(json, "loss", receipt.loss);
    load(json, "weights", receipt.weights);
    const auto parameters = json.find("parameters");
    if (parameters != json.end()) {
      if (!parameters->is_object()) throw NoRecord("\"parameters\" is no object");
      for (const auto& [name, hash] : parameters->items()) {
        if (!hash.is_string()) throw NoRecord("the hash of a parameter is no text");
        receipt.parameters.emplace_back(name, hash.get<std::string>());
      }
    }
    receipts.push_back(std::move(receipt));
  });
  return receipts;
}

namespace {

// Nothing where they agree.
std::string differenceOf(const Receipt& a, const Receipt& b) {
  const std::map<std::string, std::string> others(b.parameters.begin(), b.parameters.end());
  if (a.weights != b.weights) {
    for (const auto& [name, hash] : a.parameters) {
      const auto other = others.find(name);
      if (other != others.end() && other->second != hash) return name;
    }
    return "weights";
  }
  return std::bit_cast<std::uint64_t>(a.loss) == std::bit_cast<std::uint64_t>(b.loss) ? "" : "loss";
}

}  // namespace

Comparison compareReceipts(const std::vector<Receipt>& a, const std::vector<Receipt>& b, Step first,
                           Step last) {
  std::map<Step, const Receipt*> others;
  for (const Receipt& receipt : b) others[receipt.step] = &receipt;
  Comparison comparison;
  for (const Receipt& receipt : a) {
    const auto other = others.find(receipt.step);
    if (receipt.step < first || receipt.step > last || other == others.end()) continue;
    const std::string difference = differenceOf(receipt, *other->second);
    if (difference.empty()) {
      comparison.equal.push_back(receipt.step);
    } else {
      if (comparison.different.empty()) comparison.what = difference;
      comparison.different.push_back(receipt.step);
    }
  }
  return comparison;
}

}  // namespace cohort
