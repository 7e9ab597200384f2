"""The check of registers and spills sees what it should: reports as ptxas writes them, and each kind of complaint."""
import unittest

from resource_check import complaints, parse, readable, read, rows

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7kvbench6kernelE' for 'sm_80'
ptxas info    : Function properties for _ZN7kvbench6kernelE
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem, 416 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN7kvbench6kernelE' for 'sm_90'
ptxas info    : Function properties for _ZN7kvbench6kernelE
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 416 bytes cmem[0]
"""


class ResourceCheck(unittest.TestCase):
    def test_reports(self):
        name = "_ZN7kvbench6kernelE"
        self.assertEqual(parse([REPORT]), {(name, "sm_80"): (40, 16, 12, 512), (name, "sm_90"): (32, 0, 0, 0)})

    def test_names(self):
        symbol = "_ZN7kvbench12_GLOBAL__N_116norm_rows_kernelIfEEvNS_10NormParamsIT_EE"
        self.assertEqual(readable([symbol]), ["norm_rows_kernel<float>"])

    def test_tables_are_read_as_written(self):
        found = {"f<float, 64> | sm_80": (32, 0, 0, 0), "g | sm_90": (20, 8, 0, 16)}
        self.assertEqual(read("\n".join(["nvcc 13.0.88", "columns", *rows(found)])), ("13.0.88", found))

    def test_complaints(self):
        table = {"f | sm_80": (32, 0, 0, 0)}
        self.assertEqual(complaints(table, "13", table, "13"), [])
        for changed in [(33, 0, 0, 0), (32, 8, 0, 0), (32, 0, 4, 0), (32, 0, 0, 64)]:
            self.assertEqual(len(complaints({"f | sm_80": changed}, "13", table, "13")) > 0, True, changed)
            self.assertEqual(complaints({"f | sm_80": changed}, "14", table, "13"), [])
        self.assertEqual(len(complaints({}, "13", table, "13")), 1)
        self.assertEqual(len(complaints({**table, "g | sm_80": (1, 0, 0, 0)}, "13", table, "13")), 1)

    def test_a_spill_in_the_table_is_one_too(self):
        table = {"f | sm_80": (32, 0, 4, 0)}
        self.assertEqual(len(complaints(table, "13", table, "13")), 1)


if __name__ == "__main__":
    unittest.main()
