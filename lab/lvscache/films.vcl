# Varnish before the origin of the guest.
vcl 4.1;
backend default {
    .host = "10.1.0.2";
    .port = "8080";
}
