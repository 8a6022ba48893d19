"""Malformed files and values: documents, tables, images, archives, columnar files, serialisers, validation, templates, time."""
# A case is one line, so that cases can be compared.
# fmt: off

from __future__ import annotations

import io
import zipfile
from functools import cache
from typing import TYPE_CHECKING, Any

from .world import Cases, file, folder

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Cases()


def bad(name: str, provoke: Callable[[], object], reason: str = "the content is malformed", category: str = "data", **label: Any) -> None:
    """A case that no retry heals."""
    CASES.add(name, category, False, reason, provoke, **label)


def use(module: str) -> Any:
    from importlib import import_module

    return import_module(module)


@cache
def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "hello " * 100)
    return buffer.getvalue()


JUNK = b"this is not the format that was promised, but only some text\n" * 20

# -- documents and tables ------------------------------------------------------------------------------------------------------


@cache
def a_workbook() -> bytes:
    buffer = io.BytesIO()
    use("openpyxl").Workbook().save(buffer)
    return buffer.getvalue()


bad("openpyxl/other-zip", lambda: use("openpyxl").load_workbook(file("x.xlsx", a_zip())), "a zip, but no workbook")
bad("openpyxl/extension", lambda: use("openpyxl").load_workbook(file("x.xls", JUNK)), "an old format that the library does not read", also=("invalid_parameters",))
bad("openpyxl/sheet", lambda: use("openpyxl").load_workbook(file("x.xlsx", a_workbook()))["Nope"], "no such sheet", "not_found", also=("invalid_parameters", "data"))
bad("openpyxl/title", lambda: use("openpyxl").Workbook().create_sheet("a/b:c"), "the title has characters that are not allowed", "invalid_parameters")
bad("openpyxl/cell", lambda: use("openpyxl").Workbook().active.__setitem__("A1", "a\x01b"), "a control character in a cell", also=("invalid_parameters",))
bad("openpyxl/value", lambda: use("openpyxl").Workbook().active.__setitem__("A1", object()), "a value that no cell can hold", "invalid_parameters", also=("data",))
bad("xlrd/junk", lambda: use("xlrd").open_workbook(file("x.xls", JUNK)))
bad("xlrd/xlsx", lambda: use("xlrd").open_workbook(file("x.xls", a_workbook())), "a newer format that the library does not read")
bad("pyxlsb/junk", lambda: use("pyxlsb").open_workbook(file("x.xlsb", a_zip())), "a zip, but no workbook")
bad("xlsxwriter/long-name", lambda: use("xlsxwriter").Workbook(str(folder() / "x.xlsx")).add_worksheet("n" * 40), "the name is too long", "invalid_parameters")
bad("xlsxwriter/folder", lambda: use("xlsxwriter").Workbook("/no/such/folder/x.xlsx").close(), "the folder does not exist", "not_found", also=("configuration", "system"))
bad("pypdf/junk", lambda: use("pypdf").PdfReader(file("x.pdf", JUNK)))
bad("pypdf/empty", lambda: use("pypdf").PdfReader(file("x.pdf", b"")), "the file is empty")


@cache
def a_pdf(password: str = "") -> bytes:
    writer = use("pypdf").PdfWriter()
    writer.add_blank_page(100, 100)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


bad("pypdf/encrypted", lambda: use("pypdf").PdfReader(io.BytesIO(a_pdf("x"))).pages[0], "the document needs a password", also=("authentication",))
bad("pypdf/cut", lambda: use("pypdf").PdfReader(io.BytesIO(a_pdf()[:60])).pages[0], "the document is cut off")
bad("pypdf/page", lambda: use("pypdf").PdfReader(io.BytesIO(a_pdf())).pages[7], "no such page", "invalid_parameters", also=("not_found", "data", "unknown"))
bad("pdfminer.six/junk", lambda: use("pdfminer.high_level").extract_text(file("x.pdf", JUNK)))
bad("pdfminer.six/encrypted", lambda: use("pdfminer.high_level").extract_text(io.BytesIO(a_pdf("x"))), "the document needs a password", also=("authentication",))
bad("pymupdf/junk", lambda: use("pymupdf").open(file("x.pdf", JUNK)))
bad("pymupdf/empty", lambda: use("pymupdf").open(file("x.pdf", b"")), "the file is empty")
bad("pymupdf/missing", lambda: use("pymupdf").open("/no/such/file.pdf"), "no such file", "not_found")
bad("pymupdf/encrypted", lambda: use("pymupdf").open(stream=a_pdf("x"), filetype="pdf").load_page(0), "the document needs a password", also=("authentication",))
bad("pikepdf/junk", lambda: use("pikepdf").open(file("x.pdf", JUNK)))
bad("pikepdf/password", lambda: use("pikepdf").open(io.BytesIO(a_pdf("x")), password="y"), "the password is wrong", "authentication", also=("data",))
bad("python-docx/junk", lambda: use("docx").Document(file("x.docx", JUNK)))
bad("python-docx/other-zip", lambda: use("docx").Document(file("x.docx", a_zip())), "a zip, but no document")
bad("python-pptx/junk", lambda: use("pptx").Presentation(file("x.pptx", JUNK)))
bad("ebooklib/junk", lambda: use("ebooklib.epub").read_epub(file("x.epub", JUNK)))
bad("ebooklib/other-zip", lambda: use("ebooklib.epub").read_epub(file("x.epub", a_zip())), "a zip, but no book")

# -- images and sound ------------------------------------------------------------------------------------------------------------


@cache
def a_png() -> bytes:
    buffer = io.BytesIO()
    use("PIL.Image").effect_noise((64, 64), 50).save(buffer, "PNG")
    return buffer.getvalue()


bad("Pillow/junk", lambda: use("PIL.Image").open(file("x.png", JUNK)))
bad("Pillow/cut", lambda: use("PIL.Image").open(io.BytesIO(a_png()[:500])).load(), "the image is cut off")
bad("Pillow/checksum", lambda: use("PIL.Image").open(io.BytesIO(a_png()[:40] + b"xx" + a_png()[42:])).verify(), "a checksum is wrong")
bad("Pillow/mode", lambda: use("PIL.Image").new("RGBA", (1, 1)).save(io.BytesIO(), "JPEG"), "a format without transparency", "invalid_parameters", also=("data",))
bad("Pillow/extension", lambda: use("PIL.Image").new("RGB", (1, 1)).save(str(folder() / "x.nope")), "no such format", "invalid_parameters", also=("configuration",))


def _bomb() -> None:
    image = use("PIL.Image")
    before, image.MAX_IMAGE_PIXELS = image.MAX_IMAGE_PIXELS, 10
    try:
        image.open(io.BytesIO(a_png()))
    finally:
        image.MAX_IMAGE_PIXELS = before


bad("Pillow/bomb", _bomb, "the image is larger than allowed", also=("invalid_parameters",))
bad("opencv/empty", lambda: use("cv2").cvtColor(use("cv2").imread("/no/such/file.png"), use("cv2").COLOR_BGR2GRAY), "the image could not be read before", also=("invalid_parameters",))
bad("mutagen/junk", lambda: use("mutagen.mp3").MP3(file("x.mp3", JUNK)))
bad("mutagen/flac", lambda: use("mutagen.flac").FLAC(file("x.flac", JUNK)))
bad("soundfile/junk", lambda: use("soundfile").read(file("x.wav", JUNK)))
bad("av/junk", lambda: use("av").open(file("x.mp4", JUNK)))
bad("av/missing", lambda: use("av").open("/no/such/file.mp4"), "no such file", "not_found")

# -- archives and compression -------------------------------------------------------------------------------------------------------


def _seven(password: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with use("py7zr").SevenZipFile(buffer, "w", password=password) as archive:
        archive.writestr("hello " * 50, "a.txt")
    return buffer.getvalue()


bad("py7zr/junk", lambda: use("py7zr").SevenZipFile(file("x.7z", JUNK)))
bad("py7zr/password", lambda: use("py7zr").SevenZipFile(io.BytesIO(_seven("x"))).extractall(str(folder())), "the archive needs a password", also=("authentication",))
bad("py7zr/cut", lambda: use("py7zr").SevenZipFile(io.BytesIO(_seven()[:60])).extractall(str(folder())), "the archive is cut off")
bad("rarfile/junk", lambda: use("rarfile").RarFile(file("x.rar", JUNK)))
bad("zstandard/junk", lambda: use("zstandard").ZstdDecompressor().decompress(JUNK))
bad("zstandard/size", lambda: use("zstandard").ZstdDecompressor().decompress(use("zstandard").ZstdCompressor(write_content_size=False).compress(b"x" * 100)), "the frame does not say its size", also=("invalid_parameters",))
bad("lz4/junk", lambda: use("lz4.frame").decompress(JUNK))
bad("brotli/junk", lambda: use("brotli").decompress(JUNK))
bad("python-snappy/junk", lambda: use("snappy").decompress(b"\xff" * 30))

# -- columnar files and frames ---------------------------------------------------------------------------------------------------------

bad("pyarrow/parquet", lambda: use("pyarrow.parquet").read_table(file("x.parquet", JUNK)))
bad("pyarrow/empty", lambda: use("pyarrow.parquet").read_table(file("x.parquet", b"")), "the file is empty")
bad("pyarrow/ipc", lambda: use("pyarrow.ipc").open_file(io.BytesIO(JUNK)))
bad("pyarrow/csv", lambda: use("pyarrow.csv").read_csv(io.BytesIO(b"a,b\n1,2\n1,2,3\n")), "a line has too many columns")
bad("pyarrow/json", lambda: use("pyarrow.json").read_json(io.BytesIO(b'{"a": 1}\n{"a": ')))
bad("pyarrow/convert", lambda: use("pyarrow").array(["x"], type=use("pyarrow").int64()), "not a number", also=("invalid_parameters",))
bad("pyarrow/cast", lambda: use("pyarrow").array([300]).cast(use("pyarrow").int8()), "the number is too large", also=("invalid_parameters",))
bad("pyarrow/column", lambda: use("pyarrow").table({"a": [1]}).select(["b"]), "no such column", "invalid_parameters", also=("not_found", "data"))
bad("pandas/empty", lambda: use("pandas").read_csv(io.StringIO("")), "the file is empty")
bad("pandas/columns", lambda: use("pandas").read_csv(io.StringIO("a,b\n1,2\n1,2,3\n")), "a line has too many columns")
bad("pandas/date", lambda: use("pandas").to_datetime("not a date"), "not a date", also=("invalid_parameters",))
bad("pandas/merge", lambda: use("pandas").DataFrame({"a": [1, 1]}).merge(use("pandas").DataFrame({"a": [1, 1]}), on="a", validate="one_to_one"), "the keys are not unique", "integrity", also=("data",))
bad("pandas/range", lambda: use("pandas").Timestamp("1500-01-01").as_unit("ns"), "the date is out of range", also=("invalid_parameters",))
bad("polars/column", lambda: use("polars").DataFrame({"a": [1]}).select("b"), "no such column", "invalid_parameters", also=("not_found", "data"))
bad("polars/csv", lambda: use("polars").read_csv(io.BytesIO(b"a\n1\nx\n"), schema={"a": use("polars").Int64}), "not a number")
bad("polars/empty", lambda: use("polars").read_csv(io.BytesIO(b"")), "the file is empty")
bad("polars/parquet", lambda: use("polars").read_parquet(file("x.parquet", JUNK)))
bad("polars/shape", lambda: use("polars").DataFrame({"a": [1, 2], "b": [1]}), "the columns differ in length", "invalid_parameters", also=("data",))
bad("numpy/file", lambda: use("numpy").load(io.BytesIO(JUNK)))
bad("numpy/shape", lambda: use("numpy").ones((2, 3)) @ use("numpy").ones((2, 3)), "the shapes do not fit", "invalid_parameters", also=("data",))
bad("h5py/junk", lambda: use("h5py").File(file("x.h5", JUNK)))
bad("deltalake/missing", lambda: use("deltalake").DeltaTable(str(folder())), "no table there", "not_found", also=("data",))
bad("fastavro/junk", lambda: list(use("fastavro").reader(io.BytesIO(JUNK))))
bad("fastavro/record", lambda: use("fastavro").schemaless_writer(io.BytesIO(), {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, {"a": "x"}), "not a number", also=("invalid_parameters",))
bad("fastavro/schema", lambda: use("fastavro").parse_schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": "nope"}]}), "no such type", "invalid_parameters", also=("configuration", "data"))
bad("avro/schema", lambda: use("avro.schema").parse('{"type": "nope"}'), "no such type", "invalid_parameters", also=("configuration", "data"))
bad("avro/junk", lambda: use("avro.datafile").DataFileReader(io.BytesIO(JUNK), use("avro.io").DatumReader()))

# -- serialisers ---------------------------------------------------------------------------------------------------------------------------

bad("msgpack/extra", lambda: use("msgpack").unpackb(JUNK), "more bytes than one value")
bad("msgpack/cut", lambda: use("msgpack").unpackb(b"\x93\x01"), "the value is cut off")
bad("msgpack/format", lambda: use("msgpack").unpackb(b"\xc1"))
bad("msgpack/type", lambda: use("msgpack").packb(object()), "a value that cannot be packed", "invalid_parameters", also=("data",))
bad("cbor2/cut", lambda: use("cbor2").loads(b"\x83\x01"), "the value is cut off")
bad("cbor2/text", lambda: use("cbor2").loads(b"\x62\xff\xff"), "not UTF-8")
bad("protobuf/wire", lambda: use("google.protobuf.struct_pb2").Struct().ParseFromString(b"\x0a\xff"))
bad("protobuf/json", lambda: use("google.protobuf.json_format").Parse('{"a": ', use("google.protobuf.struct_pb2").Struct()))
bad("protobuf/type", lambda: use("google.protobuf.timestamp_pb2").Timestamp(seconds="x"), "not a number", "invalid_parameters", also=("data",))
bad("orjson/value", lambda: use("orjson").loads(b'{"a": nope}'))
bad("orjson/type", lambda: use("orjson").dumps({"a": object()}), "a value that JSON cannot hold", "invalid_parameters", also=("data",))
bad("ujson/value", lambda: use("ujson").loads('{"a": '))
bad("simplejson/value", lambda: use("simplejson").loads("{'a': 1}"))
bad("msgspec/json", lambda: use("msgspec.json").decode(b'{"a": 1,}'))
bad("msgspec/type", lambda: use("msgspec.json").decode(b'{"a": "x"}', type=dict[str, int]), "not a number", also=("invalid_parameters",))
bad("ruamel.yaml/scan", lambda: use("ruamel.yaml").YAML().load("a: [1, 2\nb: {"))
bad("ruamel.yaml/duplicate", lambda: use("ruamel.yaml").YAML().load("a: 1\na: 2\n"), "a key stands twice")
bad("PyYAML/scan", lambda: use("yaml").safe_load("a: 'x\nb: ]"))
bad("PyYAML/tag", lambda: use("yaml").safe_load("!!python/object:os.system {}"), "a tag that is not allowed", also=("invalid_parameters",))
bad("tomlkit/value", lambda: use("tomlkit").parse("a = \nb = 1"))
bad("tomlkit/duplicate", lambda: use("tomlkit").parse("a = 1\na = 2"), "a key stands twice")
bad("toml/value", lambda: use("toml").loads("a = "))
bad("lxml/xml", lambda: use("lxml.etree").fromstring(b"<a><b></a>"))
bad("lxml/empty", lambda: use("lxml.etree").fromstring(b""), "the document is empty")
bad("lxml/xpath", lambda: use("lxml.etree").fromstring(b"<a/>").xpath("//a["), "the expression does not parse", "invalid_parameters", also=("configuration",))
bad("lxml/schema", lambda: use("lxml.etree").XMLSchema(use("lxml.etree").fromstring(b"<a/>")), "not a schema", also=("configuration",))
bad("lxml/file", lambda: use("lxml.etree").parse("/no/such/file.xml"), "no such file", "not_found")
bad("html5lib/strict", lambda: use("html5lib").HTMLParser(strict=True).parse("<p><b>x</p>"))
bad("defusedxml/entities", lambda: use("defusedxml.ElementTree").fromstring('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "the document has entities, which are not allowed", also=("access_denied",))
bad("cssselect/selector", lambda: use("cssselect").GenericTranslator().css_to_xpath("div >"), "the selector does not parse", "invalid_parameters", also=("configuration", "data"))
bad("parsel/xpath", lambda: use("parsel").Selector("<a/>").xpath("//a["), "the expression does not parse", "invalid_parameters", also=("configuration", "data"))
bad("beautifulsoup4/parser", lambda: use("bs4").BeautifulSoup("<a/>", "nope"), "no such parser", "configuration", also=("invalid_parameters", "not_found"))
bad("icalendar/junk", lambda: use("icalendar").Calendar.from_ical("BEGIN:VCALENDAR\nnope\nEND:VEVENT"))
bad("vobject/junk", lambda: use("vobject").readOne("BEGIN:VCARD\nnope\nEND:VCARD"))

# -- validation ---------------------------------------------------------------------------------------------------------------------------------


def _pydantic(value: Any, **fields: Any) -> Any:
    return use("pydantic").create_model("Order", **fields)(**value)


bad("pydantic/type", lambda: _pydantic({"amount": "x"}, amount=(int, ...)), "not a number", also=("invalid_parameters",))
bad("pydantic/missing", lambda: _pydantic({}, amount=(int, ...)), "a field is missing", also=("invalid_parameters",))
bad("pydantic/json", lambda: use("pydantic").TypeAdapter(dict).validate_json(b'{"a": '), "the JSON is cut off", also=("invalid_parameters",))
bad("pydantic/schema", lambda: use("pydantic").create_model("M", a=(object(), ...)), "the model itself is wrong", "configuration", also=("invalid_parameters", "data"))


def _marshmallow() -> None:
    ma = use("marshmallow")
    ma.Schema.from_dict({"email": ma.fields.Email(required=True), "age": ma.fields.Integer()})().load({"email": "x", "age": "y"})


bad("marshmallow/load", _marshmallow, "fields are not valid", also=("invalid_parameters",))
bad("jsonschema/type", lambda: use("jsonschema").validate({"a": "x"}, {"properties": {"a": {"type": "integer"}}}), "not a number", also=("invalid_parameters",))
bad("jsonschema/schema", lambda: use("jsonschema").validate({}, {"type": "nope"}), "the schema itself is wrong", "configuration", also=("invalid_parameters", "data"))
bad("Cerberus/schema", lambda: use("cerberus").Validator({"a": {"type": "nope"}}), "the schema itself is wrong", "configuration", also=("invalid_parameters", "data"))
bad("voluptuous/type", lambda: use("voluptuous").Schema({"a": int})({"a": "x"}), "not a number", also=("invalid_parameters",))
bad("cattrs/structure", lambda: use("cattrs").structure({"a": "x"}, dict[str, int]), "not a number", also=("invalid_parameters",))
bad("phonenumbers/number", lambda: use("phonenumbers").parse("not a number", "DE"), "not a phone number", also=("invalid_parameters",))

# -- times, templates, queries, programs -------------------------------------------------------------------------------------------------------------

bad("python-dateutil/date", lambda: use("dateutil.parser").parse("not a date"), "not a date", also=("invalid_parameters",))
bad("pendulum/date", lambda: use("pendulum").parse("2026-13-45"), "not a date", also=("invalid_parameters",))
bad("arrow/date", lambda: use("arrow").get("18/11/2026 nope"), "not a date", also=("invalid_parameters",))
bad("pytz/zone", lambda: use("pytz").timezone("Mars/Olympus"), "no such time zone", "invalid_parameters", also=("configuration", "not_found"))
bad("croniter/expression", lambda: use("croniter").croniter("61 * * * *"), "not a cron expression", "invalid_parameters", also=("configuration", "data"))
bad("apscheduler/job", lambda: use("apscheduler.schedulers.background").BackgroundScheduler().remove_job("nope"), "no such job", "not_found")
bad("apscheduler/trigger", lambda: use("apscheduler.schedulers.background").BackgroundScheduler().add_job(print, "nope"), "no such trigger", "invalid_parameters", also=("configuration", "not_found"))
bad("jinja2/syntax", lambda: use("jinja2").Template("{% if x %}"), "the template does not parse", "configuration", also=("invalid_parameters", "data"))
bad("jinja2/undefined", lambda: use("jinja2").Template("{{ x.y }}", undefined=use("jinja2").StrictUndefined).render(), "a value is missing", "invalid_parameters", also=("configuration", "data"))
bad("jinja2/missing", lambda: use("jinja2").Environment(loader=use("jinja2").FileSystemLoader("/no/such")).get_template("x.html"), "no such template", "not_found", also=("configuration",))
bad("sqlglot/parse", lambda: use("sqlglot").parse_one("SELECT FROM WHERE ("), "the statement does not parse", "invalid_parameters", also=("data",))
bad("shapely/wkt", lambda: use("shapely").from_wkt("POINT (x"), "not a geometry")
bad("pyproj/crs", lambda: use("pyproj").CRS("EPSG:999999"), "no such coordinate system", "invalid_parameters", also=("not_found", "configuration"))


def _iceberg(how: str) -> Callable[[], None]:
    def provoke() -> None:
        from pyiceberg.catalog import load_catalog

        if how == "type":
            load_catalog("c", type="nope")
        place = folder()
        catalog = load_catalog("c", type="sql", uri=f"sqlite:///{place}/c.db", warehouse=f"file://{place}")
        if how == "namespace":
            catalog.create_namespace("a")
            catalog.create_namespace("a")
        catalog.load_table("a.b")

    return provoke


bad("pyiceberg/table", _iceberg("table"), "no such table", "not_found", also=("invalid_parameters",))
bad("pyiceberg/namespace", _iceberg("namespace"), "the name is taken", "integrity", also=("invalid_parameters",))
bad("pyiceberg/type", _iceberg("type"), "no such kind of catalog", "configuration", also=("invalid_parameters",))
