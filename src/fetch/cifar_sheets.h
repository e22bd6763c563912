// CIFAR-10 from PNG sheets: a sheet has one image a row, its 32x32 pixels one after the other, and no label. Private to fetch.
//
// The binary files hold records of one byte for the label and 1,024 each for red, green and blue.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace cohort {

// A JSON array of whole numbers from 0 to 9. Damaged (a clause) where it is anything else.
std::vector<std::uint8_t> readSheetLabels(const std::filesystem::path& json);

// Writes the records of a sheet's images, which have the first of `labels`; returns how many those are.
std::size_t convertSheet(const std::filesystem::path& png, std::span<const std::uint8_t> labels,
                         const std::filesystem::path& records);

}  // namespace cohort
